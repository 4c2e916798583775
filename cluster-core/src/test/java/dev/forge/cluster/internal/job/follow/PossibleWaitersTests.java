// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class PossibleWaitersTests {

    private final PossibleWaiters waiters = new PossibleWaiters();

    @Test
    void answer_of_the_database_counts_if_nothing_has_begun_meanwhile() {
        waiters.refresh(() -> true);
        assertThat(waiters.possible()).isTrue();
        waiters.refresh(() -> false);
        assertThat(waiters.possible()).isFalse();
    }

    @Test
    void job_that_begins_to_wait_during_the_query_is_not_forgotten() {
        waiters.refresh(() -> {
            waiters.begun();
            return false;
        });
        assertThat(waiters.possible()).isTrue();
        waiters.refresh(() -> false);
        assertThat(waiters.possible()).isFalse();
    }
}

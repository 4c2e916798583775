// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class FailureRowTests {

    private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE);
    private final AtomicLong contact = new AtomicLong(Long.MAX_VALUE);
    private final FailureRow row = new FailureRow(nanos::get, since -> contact.get() - since > 0);

    private int tryWithoutDatabase() {
        row.begin();
        return row.succeeded();
    }

    @Test
    void try_that_did_not_reach_the_database_ends_no_row() {
        row.failed();
        assertThat(tryWithoutDatabase()).isZero();
        assertThat(row.failed()).isEqualTo(2);
        assertThat(tryWithoutDatabase()).isZero();
        assertThat(row.length()).isEqualTo(2);
    }

    @Test
    void contact_of_the_node_after_the_last_failure_ends_the_row() {
        row.failed();
        // Overflows, as the clock of a JVM may.
        nanos.addAndGet(10);
        row.failed();
        contact.addAndGet(10);
        assertThat(tryWithoutDatabase()).isZero();
        contact.addAndGet(1);
        assertThat(tryWithoutDatabase()).isEqualTo(2);
        assertThat(row.length()).isZero();
        assertThat(tryWithoutDatabase()).isZero();
    }

    @Test
    void number_of_failures_is_grammatical() {
        assertThat(FailureRow.text(1)).isEqualTo("1 failure");
        assertThat(FailureRow.text(2)).isEqualTo("2 failures");
    }
}

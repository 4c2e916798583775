// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class SearchBudgetTests {

    private static final long MILLISECOND = 1_000_000;

    private final SearchBudget budget = new SearchBudget();
    private long now = -5_000 * MILLISECOND;

    private void search(long millis) {
        budget.spent(now, now + millis * MILLISECOND);
        now += millis * MILLISECOND;
    }

    private long untilNext() {
        return budget.untilNext(now).toMillis();
    }

    private void pause(long millis) {
        now += millis * MILLISECOND;
    }

    @Test
    void first_search_is_free() {
        assertThat(budget.untilNext(now)).isZero();
    }

    @Test
    void slow_searches_follow_each_other_until_a_tenth_of_a_second_is_spent() {
        int searches = 0;
        while (untilNext() <= 1) {
            pause(untilNext());
            search(30);
            searches++;
        }
        // Each search costs 24 ms: a fifth is credited during the search and in the millisecond after it.
        assertThat(searches).isEqualTo(5);
        assertThat(untilNext()).isBetween(90L, 100L);
    }

    @Test
    void searches_take_a_fifth_of_the_time_in_the_long_run() {
        long begin = now;
        long searching = 0;
        while (now - begin < Duration.ofMinutes(1).toNanos()) {
            now += budget.untilNext(now).toNanos();
            long took = 1 + searching % 70;
            search(took);
            searching += took;
        }
        assertThat(searching * MILLISECOND / (double) (now - begin)).isBetween(0.19, 0.205);
    }

    @Test
    void fast_searches_are_a_millisecond_apart() {
        search(0);
        assertThat(untilNext()).isOne();
        pause(1);
        assertThat(untilNext()).isZero();
    }

    @Test
    void pause_restores_a_tenth_of_a_second_and_no_more() {
        search(500);
        pause(Duration.ofHours(1).toMillis());
        search(150);
        assertThat(untilNext()).isEqualTo(100);
    }

    @Test
    void next_search_follows_within_five_seconds_of_any_search() {
        search(Duration.ofMinutes(2).toMillis());
        assertThat(untilNext()).isEqualTo(5_000);
        pause(5_000);
        assertThat(untilNext()).isZero();
    }

    @Test
    void failed_search_is_repeated_after_half_a_second() {
        budget.failed(now, now);
        assertThat(untilNext()).isEqualTo(500);
    }
}

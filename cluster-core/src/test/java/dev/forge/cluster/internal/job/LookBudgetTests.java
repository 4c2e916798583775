package dev.forge.cluster.internal.job;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class LookBudgetTests {

    private static final long MILLISECOND = 1_000_000;

    private final LookBudget budget = new LookBudget();
    private long now = -5_000 * MILLISECOND;

    private void look(long millis) {
        budget.spent(now, now + millis * MILLISECOND);
        now += millis * MILLISECOND;
    }

    private long untilNext() {
        return budget.untilNext(now).toMillis();
    }

    private void rest(long millis) {
        now += millis * MILLISECOND;
    }

    @Test
    void the_first_look_is_free() {
        assertThat(budget.untilNext(now)).isZero();
    }

    @Test
    void slow_looks_follow_each_other_at_once_until_a_tenth_of_a_second_is_spent() {
        int looks = 0;
        while (untilNext() <= 1) {
            rest(untilNext());
            look(30);
            looks++;
        }
        // Each costs 24 ms: a fifth comes back while it is under way, and in the millisecond after it.
        assertThat(looks).isEqualTo(5);
        assertThat(untilNext()).isBetween(90L, 100L);
    }

    @Test
    void in_the_long_run_a_fifth_of_the_time_goes_into_looks() {
        long begin = now;
        long looking = 0;
        while (now - begin < Duration.ofMinutes(1).toNanos()) {
            now += budget.untilNext(now).toNanos();
            long took = 1 + looking % 70;
            look(took);
            looking += took;
        }
        assertThat(looking * MILLISECOND / (double) (now - begin)).isBetween(0.19, 0.205);
    }

    @Test
    void quick_looks_keep_a_millisecond_apart() {
        look(0);
        assertThat(untilNext()).isOne();
        rest(1);
        assertThat(untilNext()).isZero();
    }

    @Test
    void a_rest_brings_a_tenth_of_a_second_back_and_no_more() {
        look(500);
        rest(Duration.ofHours(1).toMillis());
        look(150);
        assertThat(untilNext()).isEqualTo(100);
    }

    @Test
    void however_long_a_look_took_the_next_one_comes_within_five_seconds() {
        look(Duration.ofMinutes(2).toMillis());
        assertThat(untilNext()).isEqualTo(5_000);
        rest(5_000);
        assertThat(untilNext()).isZero();
    }

    @Test
    void a_failed_look_is_repeated_after_half_a_second() {
        budget.failed(now, now);
        assertThat(untilNext()).isEqualTo(500);
    }
}

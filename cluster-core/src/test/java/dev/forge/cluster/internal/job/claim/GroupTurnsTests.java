// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turns;
import dev.forge.cluster.internal.job.row.Queue;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** When queues are tried again that limits have blocked. */
class GroupTurnsTests {

    private static final Queue QUEUE = new Queue("job", "", 50, true);
    private static final JobHandler HANDLER = new JobHandler(
            "job",
            List.of("former"),
            null,
            50,
            new JobHandler.Limits(1, (attempts, failure) -> Duration.ZERO, 0, Set.of(), null, null),
            new JobHandler.Target(null, null, (payload, context) -> null, "job"));

    private final GroupTurns turns = new GroupTurns(Duration.ofSeconds(5));

    private static long millis(long millis) {
        return Duration.ofMillis(millis).toNanos();
    }

    private static Turns blocked(int groups, @Nullable Long waitMillis, boolean contended) {
        return new Turns(List.of(), "z", 0, groups, waitMillis, contended, true);
    }

    /** Records a claim in vain that took a millisecond. */
    private void inVain(Turns result, long atMillis) {
        assertThat(turns.claimed(QUEUE, HANDLER, result, 5, millis(atMillis - 1), millis(atMillis)))
                .isFalse();
    }

    @Test
    void turns_continue_after_the_last_group_under_all_names_of_the_handler() {
        assertThat(turns.next(QUEUE, HANDLER).group()).isEmpty();
        turns.claimed(QUEUE, HANDLER, new Turns(List.of(), "m", 2, 0, null, false, true), 5, 0, 0);

        assertThat(turns.next(QUEUE, HANDLER).group()).isEqualTo("m");
        assertThat(turns.next(QUEUE, HANDLER).credit()).isEqualTo(2);
        assertThat(turns.next(QUEUE, HANDLER).names()).containsExactly("job", "former");
    }

    @Test
    void pauses_grow_with_each_try_in_vain_up_to_the_poll_interval() {
        long now = 0;
        for (long pause : List.of(100L, 200L, 400L, 800L, 1_600L, 3_200L, 5_000L, 5_000L)) {
            inVain(blocked(3, null, false), now);
            assertThat(turns.untilNext(millis(now))).isEqualTo(Duration.ofMillis(pause));
            assertThat(turns.isBlocked(QUEUE, millis(now + pause - 1))).isTrue();
            assertThat(turns.takeUnblocked(millis(now + pause - 1))).isEmpty();
            now += pause;
            assertThat(turns.takeUnblocked(millis(now))).containsExactly(QUEUE);
            assertThat(turns.untilNext(millis(now))).isNull();
        }
    }

    @Test
    void rate_and_contention_shorten_the_pause() {
        inVain(blocked(3, 40L, false), 0);
        assertThat(turns.untilNext(0)).isEqualTo(Duration.ofMillis(41));
        inVain(blocked(3, 40L, true), 0);
        assertThat(turns.untilNext(0)).isEqualTo(Duration.ofMillis(3));
    }

    @Test
    void queue_whose_time_has_passed_is_tried_at_once_until_it_was_taken() {
        inVain(blocked(3, null, true), 0);
        assertThat(turns.untilNext(millis(10))).isZero();
        assertThat(turns.takeUnblocked(millis(10))).containsExactly(QUEUE);
        assertThat(turns.untilNext(millis(10))).isNull();
    }

    @Test
    void many_blocked_groups_are_visited_in_parts_that_take_a_fifth_of_the_time() {
        inVain(new Turns(List.of(), "m", 0, 1_000, null, false, false), 10);
        assertThat(turns.untilNext(millis(10))).isEqualTo(Duration.ofMillis(4));
        assertThat(turns.takeUnblocked(millis(14))).containsExactly(QUEUE);
        inVain(new Turns(List.of(), "t", 0, 1_000, null, false, false), 20);
        assertThat(turns.untilNext(millis(20))).isEqualTo(Duration.ofMillis(4));
    }

    @Test
    void groups_whose_jobs_are_not_due_are_visited_in_parts_too() {
        inVain(new Turns(List.of(), "m", 0, 0, null, false, false), 10);
        assertThat(turns.untilNext(millis(10))).isEqualTo(Duration.ofMillis(4));
        assertThat(turns.next(QUEUE, HANDLER).group()).isEqualTo("m");
    }

    @Test
    void queue_without_blocked_groups_does_not_wait() {
        inVain(blocked(0, null, false), 0);
        assertThat(turns.untilNext(0)).isNull();
        assertThat(turns.isBlocked(QUEUE, 0)).isFalse();
    }

    @Test
    void job_that_ends_unblocks_its_queue_and_hints_at_its_group() {
        inVain(blocked(3, null, false), 0);
        turns.ended("other", "x");
        assertThat(turns.takeUnblocked(0)).isEmpty();
        turns.ended("job", "a");
        turns.ended("job", null);

        assertThat(turns.takeUnblocked(0)).containsExactly(QUEUE);
        assertThat(turns.next(QUEUE, HANDLER).ended()).containsExactly("a");
        assertThat(turns.next(QUEUE, HANDLER).ended()).isEmpty();
    }

    @Test
    void new_jobs_bring_the_next_try_forward_but_not_on_every_wake_up() {
        inVain(blocked(3, null, false), 10);
        turns.hasNewJobs(QUEUE);

        assertThat(turns.isBlocked(QUEUE, millis(13))).isTrue();
        assertThat(turns.isBlocked(QUEUE, millis(14))).isFalse();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.JobExecutor;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** When claims from a queue may leave out rows that are perhaps locked. */
class LaneTests {

    private static final Queue QUEUE = Queue.ungrouped("job", "", 50);

    private final LaneSettings settings = new LaneSettings("default", 1, null, false);
    private final Lane lane = new Lane(
            new Lane.Selection(settings, List::of, List.of(""), () -> true),
            new JobExecutor(settings, System::nanoTime, jobs -> {}, () -> {}),
            new GroupTurns(Duration.ofSeconds(5)));

    private static Mark mark(int second) {
        return new Mark(Instant.ofEpochSecond(second), new UUID(0, 0));
    }

    /** Returns whether a claim from that place, which takes all jobs before the other, is a quick one. */
    private boolean claim(int from, int to, Duration now) {
        boolean quick = lane.beginQuickly(QUEUE, mark(from), now.toNanos());
        lane.claimedPart(QUEUE, mark(to));
        return quick;
    }

    private void search(int head) {
        lane.replaceDue(List.of(new Head(QUEUE, mark(head))), 0);
    }

    @Test
    void only_the_first_claim_of_a_backlog_is_thorough() {
        search(0);
        assertThat(claim(0, 10, Duration.ZERO)).isFalse();
        assertThat(claim(10, 20, Duration.ZERO)).isTrue();
        search(5);
        assertThat(claim(5, 30, Duration.ofSeconds(4))).isTrue();
        assertThat(claim(30, 40, Duration.ofSeconds(60))).isTrue();
    }

    @Test
    void claims_are_thorough_now_and_then_until_they_reach_the_place_of_earlier_ones() {
        search(0);
        claim(0, 10, Duration.ZERO);
        claim(10, 100, Duration.ZERO);
        search(5);
        assertThat(claim(5, 50, Duration.ofSeconds(6))).isFalse();
        assertThat(claim(50, 99, Duration.ofSeconds(6))).isFalse();
        assertThat(claim(99, 150, Duration.ofSeconds(6))).isFalse();
        assertThat(claim(150, 200, Duration.ofSeconds(6))).isTrue();
        search(5);
        assertThat(claim(5, 201, Duration.ofSeconds(10))).isTrue();
    }

    @Test
    void claim_after_one_that_was_not_full_is_thorough() {
        search(0);
        claim(0, 10, Duration.ZERO);
        assertThat(lane.beginQuickly(QUEUE, mark(10), 0)).isTrue();
        lane.claimedAll(QUEUE);
        search(11);
        assertThat(claim(11, 20, Duration.ZERO)).isFalse();
    }
}

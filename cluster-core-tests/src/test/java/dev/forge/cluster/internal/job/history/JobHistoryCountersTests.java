// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.history.JobHistoryCounters.Batch;
import dev.forge.cluster.internal.job.history.JobHistoryCounters.Row;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Counting in memory. */
class JobHistoryCountersTests {

    private final JobHistoryCounters counters = new JobHistoryCounters();

    private static long completed(Batch batch, String name) {
        return batch.rows().stream()
                .filter(row -> row.name().equals(name))
                .mapToLong(row -> row.counts()[JobHistoryCounters.COMPLETED])
                .sum();
    }

    private void complete(String name) {
        counters.ended(name, Kind.COMPLETED, 1);
    }

    @Test
    void batch_that_was_not_written_is_part_of_the_next_one() {
        complete("mail");
        assertThat(completed(counters.unwritten(), "mail")).isOne();
        complete("mail");
        Batch batch = counters.unwritten();
        assertThat(completed(batch, "mail")).isEqualTo(2);
        assertThat(completed(batch, JobHistoryCounters.ALL_NAMES)).isEqualTo(2);
        counters.written(batch);
        assertThat(counters.unwritten().rows()).isEmpty();
    }

    @Test
    void outcomes_are_counted_by_kind() {
        counters.started("mail", Duration.ofSeconds(1));
        counters.ended("mail", Kind.RETRIED, 5);
        counters.ended("mail", Kind.SNOOZED, 5);
        counters.ended("mail", Kind.RETURNED, 5);
        counters.ended("mail", Kind.LOST, 5);
        counters.ended("mail", Kind.FAILED, 5);
        counters.failed(UUID.randomUUID(), "mail", JobStatus.FAILED, "boom");
        counters.recovered("mail");
        Row row = counters.unwritten().rows().get(1);
        assertThat(row.name()).isEqualTo("mail");
        assertThat(row.counts()[JobHistoryCounters.COMPLETED]).isZero();
        assertThat(row.counts()[JobHistoryCounters.RETRIED]).isOne();
        assertThat(row.counts()[JobHistoryCounters.FAILED]).isOne();
        assertThat(row.counts()[JobHistoryCounters.RECOVERED]).isOne();
        assertThat(row.counts()[JobHistoryCounters.RUNS]).isEqualTo(2);
        assertThat(row.counts()[JobHistoryCounters.WAITS + 20]).isOne();
    }

    @Test
    void names_beyond_the_bound_are_counted_together() {
        for (int i = 0; i < 250; i++) {
            complete("name-" + i);
        }
        complete(JobHistoryCounters.OTHER_NAMES);
        Batch batch = counters.unwritten();
        assertThat(batch.rows()).hasSize(JobHistoryCounters.MOST_NAMES + 2);
        assertThat(completed(batch, JobHistoryCounters.OTHER_NAMES)).isEqualTo(51);
        assertThat(completed(batch, JobHistoryCounters.ALL_NAMES)).isEqualTo(251);
    }

    @Test
    void name_without_jobs_makes_room_for_another_one() {
        for (int i = 0; i < JobHistoryCounters.MOST_NAMES; i++) {
            complete("name-" + i);
        }
        counters.written(counters.unwritten());
        complete("name-7");
        counters.written(counters.unwritten());
        complete("name-7");
        complete("name-8");
        complete("newcomer");
        Batch batch = counters.unwritten();
        assertThat(completed(batch, "newcomer")).isOne();
        assertThat(completed(batch, "name-7")).isOne();
        assertThat(completed(batch, "name-8")).isOne();
        assertThat(batch.rows()).extracting(Row::name).doesNotHaveDuplicates();
    }

    @Test
    void concurrent_counts_are_neither_lost_nor_doubled() throws InterruptedException {
        int threads = 4;
        int each = 50_000;
        var running = new ArrayList<Thread>();
        for (int t = 0; t < threads; t++) {
            var thread = new Thread(() -> {
                for (int i = 0; i < each; i++) {
                    complete("name-" + i % 300);
                }
            });
            thread.start();
            running.add(thread);
        }
        long written = 0;
        boolean ended = false;
        while (!ended) {
            // Before the batch: the last one has what the threads counted last.
            ended = running.stream().noneMatch(Thread::isAlive);
            Batch batch = counters.unwritten();
            written += completed(batch, JobHistoryCounters.ALL_NAMES);
            counters.written(batch);
        }
        for (Thread thread : running) {
            thread.join();
        }
        assertThat(written).isEqualTo((long) threads * each);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.Queue;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.springframework.core.task.AsyncTaskExecutor;

/** Slots, order and prefetching of an executor whose threads the test starts. */
class JobExecutorTests {

    private final List<String> ran = new ArrayList<>();
    private final Deque<Runnable> threads = new ArrayDeque<>();
    private boolean exhausted;
    private final AsyncTaskExecutor executor = task -> {
        if (exhausted) {
            throw new OutOfMemoryError("unable to create native thread");
        }
        threads.add(task);
    };

    private final JobExecutor lane = new JobExecutor(
            new LaneSettings("default", 1, 10, false),
            System::nanoTime,
            jobs -> jobs.forEach(running -> ran.add(running.name())),
            () -> {});

    private static Attempt job(String name, int priority) {
        return job(name, priority, null);
    }

    private static Attempt job(String name, int priority, JobHandler.@Nullable Bulk bulk) {
        return job(name, priority, bulk, 4);
    }

    private static Attempt job(String name, int priority, JobHandler.@Nullable Bulk bulk, long bytes) {
        var claimed = new Claimed(
                UUID.randomUUID(),
                Queue.ungrouped(name, "", priority),
                "{}",
                1,
                null,
                1,
                0,
                Instant.EPOCH,
                null,
                "{}",
                0,
                false,
                bytes,
                true,
                false,
                null,
                null);
        var handler = new JobHandler(
                name,
                List.of(),
                null,
                priority,
                new JobHandler.Limits(1, (attempts, failure) -> Duration.ZERO, 0, Set.of(), null, null),
                new JobHandler.Target(null, null, (payload, context) -> null, bulk, name));
        return new Attempt(
                claimed,
                new ClaimedJob.Holder(UUID.randomUUID(), "node"),
                handler,
                0,
                new Attempt.Persistence(null, null, null));
    }

    private static int room(JobExecutor lane) {
        Attempt any = job("any", 50);
        return lane.roomFor(any.claimed().queue(), any.handler());
    }

    private void runThreads() {
        while (!threads.isEmpty()) {
            threads.remove().run();
        }
    }

    @Test
    void failed_thread_start_costs_no_slot() {
        lane.open(executor);
        exhausted = true;
        lane.add(List.of(job("first", 50)));
        assertThat(lane.lacksThreads()).isTrue();
        lane.startMissingThreads();
        assertThat(lane.inFlight()).isOne();
        exhausted = false;
        lane.startMissingThreads();
        runThreads();
        assertThat(ran).containsExactly("first");
        assertThat(lane.lacksThreads()).isFalse();
        lane.add(List.of(job("second", 50)));
        runThreads();
        assertThat(ran).containsExactly("first", "second");
        assertThat(lane.idle()).isOne();
    }

    @Test
    void executor_retries_after_jobs_were_returned_without_a_thread() {
        var now = new AtomicLong();
        var lane = new JobExecutor(
                new LaneSettings("default", 4, null, false),
                now::get,
                jobs -> jobs.forEach(job -> ran.add(job.name())),
                () -> {});
        lane.open(executor);
        exhausted = true;
        lane.add(List.of(job("first", 50)));
        now.addAndGet(Duration.ofSeconds(2).toNanos());
        assertThat(lane.takeOverdue()).hasSize(1);
        assertThat(lane.hasRoom()).isTrue();
        exhausted = false;
        lane.add(List.of(job("second", 50)));
        runThreads();
        assertThat(ran).containsExactly("second");
        assertThat(lane.idle()).isEqualTo(4);
    }

    @Test
    void timeout_of_an_earlier_attempt_does_not_stop_the_next_one() {
        Attempt running = job("usual", 50);
        running.start(1, true);
        running.isolate();
        assertThat(running.expire(1)).isFalse();
        running.start(2, false);
        assertThat(running.expire(1)).isFalse();
        assertThat(running.stopRequested()).isFalse();
        assertThat(running.expire(2)).isTrue();
        assertThat(running.stopRequested()).isTrue();
        // The thread of this test was interrupted.
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void most_urgent_job_starts_first_and_equally_urgent_ones_in_their_order() {
        lane.open(executor);
        lane.add(List.of(job("usual", 50)));
        lane.add(List.of(job("later", 50)));
        lane.add(List.of(job("urgent", 100)));
        runThreads();
        assertThat(ran).containsExactly("urgent", "usual", "later");
    }

    @Test
    void started_job_has_its_start_time() throws Exception {
        for (int i = 0; i < 200; i++) {
            Attempt running = job("usual", 50);
            var thread = new Thread(() -> running.start(7, false));
            thread.start();
            while (running.phase() != AttemptState.Phase.RUNNING) {
                Thread.onSpinWait();
            }
            assertThat(running.startedAt()).as("start of job %d", i).isEqualTo(7);
            thread.join();
        }
    }

    private final AtomicLong now = new AtomicLong();

    private JobExecutor measured(int slots) {
        var measured = new JobExecutor(
                new LaneSettings("default", slots, null, false),
                now::get,
                jobs -> {
                    now.addAndGet(1_000);
                    jobs.forEach(running -> ran.add(running.name()));
                },
                () -> {});
        measured.open(executor);
        return measured;
    }

    @Test
    void prefetched_jobs_that_waited_for_a_second_are_returned_and_no_others_prefetched() {
        JobExecutor lane = measured(1);
        lane.add(List.of(job("quick", 50)));
        runThreads();
        assertThat(room(lane)).isGreaterThan(500);
        lane.add(List.of(job("runs", 50)));
        Runnable slow = threads.remove();
        lane.add(List.of(job("waits", 50)));
        lane.add(List.of(job("urgent", 100)));
        assertThat(lane.untilOverdue()).isEqualTo(Duration.ofSeconds(1));
        now.addAndGet(Duration.ofMillis(500).toNanos());
        lane.add(List.of(job("late", 100)));
        assertThat(lane.takeOverdue()).isEmpty();
        assertThat(room(lane)).isZero();
        now.addAndGet(Duration.ofMillis(501).toNanos());
        assertThat(lane.takeOverdue()).extracting(Attempt::name).containsExactlyInAnyOrder("runs", "waits", "urgent");
        assertThat(lane.inFlight()).isOne();
        slow.run();
        assertThat(ran).containsExactly("quick", "late");
        assertThat(lane.inFlight()).isZero();
        assertThat(lane.untilOverdue()).isNull();
    }

    @Test
    void executor_without_threads_requests_no_jobs() {
        JobExecutor lane = measured(4);
        exhausted = true;
        lane.add(List.of(job("first", 50)));
        assertThat(room(lane)).isZero();
        assertThat(lane.idle()).isZero();
        exhausted = false;
        lane.startMissingThreads();
        assertThat(room(lane)).isPositive();
    }

    private static final JobHandler.Bulk FIVE = new JobHandler.Bulk(5, Duration.ZERO, (payloads, contexts) -> null);

    private static List<Attempt> index(int number) {
        return Stream.generate(() -> job("index", 50, FIVE)).limit(number).toList();
    }

    private static int roomForIndex(JobExecutor lane) {
        Attempt any = job("index", 50, FIVE);
        return lane.roomFor(any.claimed().queue(), any.handler());
    }

    @Test
    void call_for_many_jobs_occupies_one_slot() {
        var calls = new ArrayList<Integer>();
        var lane = new JobExecutor(
                new LaneSettings("default", 3, 0, false), System::nanoTime, jobs -> calls.add(jobs.size()), () -> {});
        lane.open(executor);
        assertThat(roomForIndex(lane)).isEqualTo(15);
        lane.add(index(7));
        assertThat(threads).as("threads for seven jobs in calls of five").hasSize(2);
        assertThat(lane.idle()).isOne();
        assertThat(room(lane)).isOne();
        assertThat(lane.inFlight()).isEqualTo(7);
        runThreads();
        assertThat(calls).containsExactly(5, 2);
        assertThat(lane.idle()).isEqualTo(3);
        assertThat(lane.inFlight()).isZero();
    }

    @Test
    void jobs_of_a_handler_that_takes_many_are_prefetched_in_full_calls() {
        var lane = new JobExecutor(new LaneSettings("default", 1, 12, false), System::nanoTime, jobs -> {}, () -> {});
        lane.open(executor);
        assertThat(roomForIndex(lane)).as("one call to start and two to wait").isEqualTo(15);
        lane.add(index(3));
        assertThat(roomForIndex(lane))
                .as("room that completes two calls of five")
                .isEqualTo(7);
    }

    @Test
    void call_takes_no_more_bytes_than_a_claim() {
        var calls = new ArrayList<Integer>();
        var lane = new JobExecutor(
                new LaneSettings("default", 1, 0, false), System::nanoTime, jobs -> calls.add(jobs.size()), () -> {});
        lane.open(executor);
        lane.add(Stream.generate(() -> job("index", 50, FIVE, 3_000_000))
                .limit(5)
                .toList());
        runThreads();
        assertThat(calls).containsExactly(3, 2);
    }

    @Test
    void one_call_of_a_handler_waits_for_more_jobs_and_the_others_run() throws Exception {
        var patient = new JobHandler.Bulk(5, Duration.ofHours(1), (payloads, contexts) -> null);
        var calls = new CopyOnWriteArrayList<Integer>();
        var waits = new CountDownLatch(1);
        var lane = new JobExecutor(
                new LaneSettings("default", 3, 0, false),
                System::nanoTime,
                jobs -> calls.add(jobs.get(0).claimed().queue().priority()),
                waits::countDown);
        lane.open(executor);
        lane.add(List.of(job("index", 50, patient)));
        var waiting = new Thread(threads.remove());
        waiting.start();
        assertThat(waits.await(1, TimeUnit.MINUTES)).isTrue();
        lane.add(List.of(job("index", 60, patient)));
        runThreads();
        assertThat(calls).containsExactly(60);
        assertThat(lane.missingFor(
                        Queue.ungrouped("index", "", 50),
                        job("index", 50, patient).handler()))
                .isEqualTo(4);
        lane.add(Stream.generate(() -> job("index", 50, patient)).limit(4).toList());
        waiting.join();
        assertThat(calls).containsExactly(60, 50);
        assertThat(lane.idle()).isEqualTo(3);
    }
}

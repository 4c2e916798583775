package dev.forge.cluster.internal.job;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.JobStore.Claimed;
import dev.forge.cluster.internal.job.JobStore.Queue;
import dev.forge.cluster.internal.job.WorkerSettings.LaneSettings;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.core.task.AsyncTaskExecutor;

/** An executor whose threads are started, or not, by the test. */
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
            new LaneSettings("default", 1, 10, false), System::nanoTime, running -> ran.add(running.name()), () -> {});

    private static RunningJob job(String name, int priority) {
        var claimed = new Claimed(
                UUID.randomUUID(),
                new Queue(name, "", priority),
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
                4,
                true);
        var handler = new JobHandler(
                name,
                List.of(),
                null,
                priority,
                new JobHandler.Limits(1, (attempts, failure) -> java.time.Duration.ZERO, 0, Set.of(), null, null),
                new JobHandler.Target(null, null, (payload, context) -> null, name));
        return new RunningJob(claimed, new RunningJob.Holder(UUID.randomUUID(), "node"), handler, 0, null, null);
    }

    private void runThreads() {
        while (!threads.isEmpty()) {
            threads.remove().run();
        }
    }

    @Test
    void failed_thread_creation_costs_no_slot() {
        lane.open(executor);
        exhausted = true;
        lane.add(job("first", 50));
        assertThat(lane.lacksThreads()).isTrue();
        lane.startMissingThreads();
        assertThat(lane.inFlight()).isOne();
        exhausted = false;
        lane.startMissingThreads();
        runThreads();
        assertThat(ran).containsExactly("first");
        assertThat(lane.lacksThreads()).isFalse();
        lane.add(job("second", 50));
        runThreads();
        assertThat(ran).containsExactly("first", "second");
        assertThat(lane.idle()).isOne();
    }

    @Test
    void most_urgent_job_starts_first_and_equally_urgent_ones_in_their_order() {
        lane.open(executor);
        lane.add(job("usual", 50));
        lane.add(job("later", 50));
        lane.add(job("urgent", 100));
        runThreads();
        assertThat(ran).containsExactly("urgent", "usual", "later");
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.task.AsyncTaskExecutor;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/**
 * An executor with slots and a short queue of claimed jobs. The queue holds the jobs that the slots can run in a tenth of a second:
 * enough to keep the slots busy while the next batch is claimed, and few enough that no job waits here while another node is
 * idle. The most urgent job starts first. If the handlers have become slow meanwhile, the queue is too long: the caller must
 * return jobs that have {@linkplain #takeOverdue() waited for a second}.
 *
 * <p>A call occupies one slot, however many jobs it takes.
 */
public final class JobExecutor {

    private static final Logger log = GuardedLogger.of(JobExecutor.class);
    private static final Duration AHEAD = Duration.ofMillis(100);
    private static final int MOST_AHEAD = 1_000;
    /** A claimed job that has waited this long is returned: it was prefetched because it should have started long before. */
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    private static final double WEIGHT = 0.1;

    private final LaneSettings settings;
    private final LongSupplier nanos;
    private final Consumer<List<Attempt>> runJobs;
    private final Runnable onRoom;
    private final WaitingJobs waiting = new WaitingJobs();
    private final AtomicInteger inFlight = new AtomicInteger();
    private final AtomicInteger runners = new AtomicInteger();
    private volatile boolean throttled;
    private volatile boolean fillsCalls = true;
    /** Whether the last attempt to start a thread failed. */
    private volatile boolean lacksThreads;
    /** Mean duration of a job; measured without locks, so that a lost update is only a lost sample. */
    private volatile double meanNanos = Double.MAX_VALUE;
    /** When a job of this executor last ended. */
    private volatile long lastEnd;

    private AsyncTaskExecutor executor = new SimpleAsyncTaskExecutor();

    /**
     * Creates an executor.
     *
     * @param runJobs runs one job, or several jobs of a handler that takes many at a time
     * @param onRoom called when there is room for more jobs
     */
    public JobExecutor(LaneSettings settings, LongSupplier nanos, Consumer<List<Attempt>> runJobs, Runnable onRoom) {
        this.settings = settings;
        this.nanos = nanos;
        this.runJobs = runJobs;
        this.onRoom = onRoom;
    }

    public void open() {
        open(newExecutor());
    }

    public void open(AsyncTaskExecutor threads) {
        executor = threads;
    }

    private AsyncTaskExecutor newExecutor() {
        String prefix = "forge-job-" + (settings.name().equals("default") ? "" : settings.name() + "-");
        if (settings.virtualThreads()) {
            var virtual = new SimpleAsyncTaskExecutor(prefix);
            virtual.setVirtualThreads(true);
            return virtual;
        }
        var pool = new ThreadPoolTaskExecutor();
        pool.setThreadNamePrefix(prefix);
        pool.setCorePoolSize(settings.slots().getAsInt());
        pool.setMaxPoolSize(settings.slots().getAsInt());
        pool.setAllowCoreThreadTimeOut(true);
        pool.setDaemon(true);
        pool.initialize();
        return pool;
    }

    public void close() {
        if (executor instanceof ThreadPoolTaskExecutor pool) {
            pool.shutdown();
        }
    }

    public String name() {
        return settings.name();
    }

    public int slots() {
        int slots = settings.slots().getAsInt();
        return throttled ? Math.max(1, slots / 2) : slots;
    }

    /** Starts calls with the jobs that they have, although they could take more. */
    public void runIncompleteCalls() {
        fillsCalls = false;
    }

    /** Limits new jobs to half of the slots while the CPU is overloaded. */
    public void throttle(boolean whether) {
        throttled = whether;
    }

    /** Returns the number of jobs that run or wait for a slot. */
    public int inFlight() {
        return inFlight.get();
    }

    /** Returns the number of occupied slots. */
    public int busy() {
        return waiting.runningCalls();
    }

    /** Returns the number of slots that have a thread, or can have one as far as is known. */
    private int usableSlots() {
        // One is tried again even without any thread: otherwise nothing would find out that threads can start again.
        return lacksThreads ? Math.min(slots(), Math.max(1, runners.get())) : slots();
    }

    /** Returns how many calls could start immediately. */
    public int idle() {
        return Math.max(0, usableSlots() - waiting.calls());
    }

    /** Returns how many jobs of a queue could start immediately: those that idle slots and calls that are not full yet take. */
    public int idleFor(Queue queue, JobHandler handler) {
        return missingFor(queue, handler) + idle() * callSize(handler);
    }

    /** Returns how many jobs of a queue are awaited by calls that are not full yet. */
    public int missingFor(Queue queue, JobHandler handler) {
        return waiting.missing(new WaitingJobs.Kind(handler.name(), queue.priority()));
    }

    private int capacity() {
        return usableSlots() + ahead();
    }

    /** Returns how many jobs may wait for a slot. */
    private int ahead() {
        if (throttled || lacksThreads) {
            return 0;
        }
        Integer configured = settings.prefetch();
        if (configured != null) {
            return configured;
        }
        return isStalled() ? 0 : (int) Math.min(MOST_AHEAD, slots() * (AHEAD.toNanos() / Math.max(1, meanNanos)));
    }

    /** Returns whether all slots have been busy for longer than prefetched jobs should wait: the measured mean is outdated. */
    private boolean isStalled() {
        return waiting.calls() >= slots() && nanos.getAsLong() - lastEnd > AHEAD.toNanos();
    }

    /** Returns how many more jobs may wait for a slot; 0 while there are enough. */
    private int roomAhead() {
        int usable = usableSlots();
        int capacity = usable + ahead();
        int present = waiting.present();
        return present < usable || present <= capacity / 2 ? Math.max(0, capacity - Math.max(present, usable)) : 0;
    }

    /** Returns whether there is room for jobs of any handler. */
    public boolean hasRoom() {
        return idle() > 0 || isWaitingForJobs() || roomAhead() > 0;
    }

    /** Returns whether a call is not full yet and waits for more jobs. */
    public boolean isWaitingForJobs() {
        return waiting.missing() > 0;
    }

    /**
     * Returns how many jobs of a queue to claim now; 0 while there are enough. Jobs of a handler that takes many at a time wait only in
     * the number of a full call: a slot that became idle would take the few that wait.
     */
    public int roomFor(Queue queue, JobHandler handler) {
        int size = callSize(handler);
        int present = size == 1 ? 0 : waiting.count(new WaitingJobs.Kind(handler.name(), queue.priority()));
        int fullCalls = (present + roomAhead()) / size;
        return idleFor(queue, handler) + Math.max(0, fullCalls * size - present);
    }

    /** Returns the largest number of jobs that a call of a handler takes. */
    public static int callSize(JobHandler handler) {
        return handler.target().callSize();
    }

    /**
     * Removes jobs from the queue that have waited for too long. The caller returns them, so that other nodes can run them and more
     * urgent jobs can be claimed here. Removes none if the number of prefetched jobs is configured: then their wait is intended.
     */
    public List<Attempt> takeOverdue() {
        if (settings.prefetch() != null) {
            return List.of();
        }
        List<Attempt> overdue = waiting.takeAddedBefore(nanos.getAsLong() - LONGEST_WAIT.toNanos());
        inFlight.addAndGet(-overdue.size());
        return overdue;
    }

    /** Returns the time until {@link #takeOverdue()} would remove a job, unless it starts before; null if no job waits. */
    @Nullable
    public Duration untilOverdue() {
        Long oldest = settings.prefetch() != null ? null : waiting.oldest();
        return oldest == null
                ? null
                : Duration.ofNanos(Math.max(0, oldest + LONGEST_WAIT.toNanos() - nanos.getAsLong()));
    }

    /** Adds claimed jobs of one queue: all at once, so that a handler that takes many of them gets them together. */
    public void add(List<Attempt> claimed) {
        inFlight.addAndGet(claimed.size());
        int calls = waiting.add(claimed, nanos.getAsLong());
        for (int i = 0; i < calls; i++) {
            startRunner();
        }
    }

    /** Returns whether claimed jobs may wait for a thread that could not be started. */
    public boolean lacksThreads() {
        return lacksThreads;
    }

    /** Starts threads for waiting calls, if that failed before, or if there were fewer slots when the calls were added. */
    public void startMissingThreads() {
        int missing = Math.min(waiting.waitingCalls(), slots() - runners.get());
        for (int i = 0; i < missing; i++) {
            startRunner();
            if (lacksThreads) {
                return;
            }
        }
    }

    private void startRunner() {
        int running = runners.get();
        while (running < slots()) {
            if (runners.compareAndSet(running, running + 1)) {
                execute();
                return;
            }
            running = runners.get();
        }
    }

    private void execute() {
        try {
            executor.execute(this::runAll);
            lacksThreads = false;
        } catch (RuntimeException | Error e) {
            // No memory or no permission for another thread. The job stays in the queue, and the slot stays usable.
            runners.decrementAndGet();
            if (!lacksThreads) {
                lacksThreads = true;
                log.warn(
                        "Executor {}: could not start a thread; {} claimed jobs wait for it. Retrying.",
                        settings.name(),
                        waiting.size(),
                        e);
            }
        }
    }

    private void runAll() {
        try {
            for (List<Attempt> next = next(); !next.isEmpty(); next = next()) {
                long start = nanos.getAsLong();
                try {
                    runJobs.accept(next);
                } finally {
                    measured(start, nanos.getAsLong(), next.size());
                    inFlight.addAndGet(-next.size());
                    int left = waiting.ended();
                    int half = capacity() / 2;
                    if (waiting.calls() < slots() || (left <= half && left + next.size() > half)) {
                        onRoom.run();
                    }
                }
            }
        } finally {
            runners.decrementAndGet();
            // A job may have been added after the last poll, when all slots still seemed to be occupied.
            if (waiting.size() > 0) {
                startRunner();
            }
        }
    }

    /** Returns the jobs of the next call; empty if no job waits. */
    private List<Attempt> next() {
        WaitingJobs.Call call = waiting.poll();
        if (call == null) {
            return List.of();
        }
        if (call.takesMany() && fillsCalls) {
            takeMore(call);
        }
        return call.jobs();
    }

    /** Waits for more jobs for a call. Meanwhile jobs are claimed in the place of those that it has, although no slot is idle. */
    private void takeMore(WaitingJobs.Call call) {
        try {
            boolean isOpen = waiting.open(call);
            onRoom.run();
            if (isOpen) {
                waiting.fill(call);
            }
        } catch (RuntimeException | Error e) {
            // The jobs that it has would be lost.
            log.warn("Executor {}: a call could not wait for more jobs", settings.name(), e);
        } finally {
            waiting.close(call);
        }
    }

    private void measured(long start, long end, int jobs) {
        double took = (double) (end - start) / jobs;
        double mean = meanNanos;
        meanNanos = mean == Double.MAX_VALUE ? took : mean + WEIGHT * (took - mean);
        lastEnd = end;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.worker.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
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
 */
final class JobExecutor {

    private static final Logger log = GuardedLogger.of(JobExecutor.class);
    private static final Duration AHEAD = Duration.ofMillis(100);
    private static final int MOST_AHEAD = 1_000;
    /** A claimed job that has waited this long is returned: it was prefetched because it should have started long before. */
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    private static final double WEIGHT = 0.1;

    private final LaneSettings settings;
    private final LongSupplier nanos;
    private final Consumer<List<RunningJob>> runJobs;
    private final Runnable onRoom;
    private final Waiting waiting = new Waiting();
    private final AtomicInteger inFlight = new AtomicInteger();
    private final AtomicInteger runners = new AtomicInteger();
    private volatile boolean throttled;
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
    JobExecutor(LaneSettings settings, LongSupplier nanos, Consumer<List<RunningJob>> runJobs, Runnable onRoom) {
        this.settings = settings;
        this.nanos = nanos;
        this.runJobs = runJobs;
        this.onRoom = onRoom;
    }

    void open() {
        open(newExecutor());
    }

    void open(AsyncTaskExecutor threads) {
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

    void close() {
        if (executor instanceof ThreadPoolTaskExecutor pool) {
            pool.shutdown();
        }
    }

    String name() {
        return settings.name();
    }

    int slots() {
        int slots = settings.slots().getAsInt();
        return throttled ? Math.max(1, slots / 2) : slots;
    }

    /** Limits new jobs to half of the slots while the CPU is overloaded. */
    void throttle(boolean whether) {
        throttled = whether;
    }

    int inFlight() {
        return inFlight.get();
    }

    /** Returns the number of slots that have a thread, or can have one as far as is known. */
    private int usableSlots() {
        return lacksThreads ? Math.min(slots(), runners.get()) : slots();
    }

    /** Returns how many jobs could start immediately. */
    int idle() {
        return Math.max(0, usableSlots() - inFlight.get());
    }

    private int capacity() {
        Integer configured = settings.prefetch();
        int ahead = throttled || lacksThreads
                ? 0
                : configured != null
                        ? configured
                        : isStalled()
                                ? 0
                                : (int) Math.min(MOST_AHEAD, slots() * (AHEAD.toNanos() / Math.max(1, meanNanos)));
        return usableSlots() + ahead;
    }

    /** Returns whether all slots have been busy for longer than prefetched jobs should wait: the measured mean is outdated. */
    private boolean isStalled() {
        return inFlight.get() >= slots() && nanos.getAsLong() - lastEnd > AHEAD.toNanos();
    }

    /** Returns how many jobs to claim now; 0 while there are enough. */
    int room() {
        int capacity = capacity();
        int present = inFlight.get();
        return present < usableSlots() || present <= capacity / 2 ? Math.max(0, capacity - present) : 0;
    }

    /**
     * Removes jobs from the queue that have waited for too long. The caller returns them, so that other nodes can run them and more
     * urgent jobs can be claimed here. Removes none if the number of prefetched jobs is configured: then their wait is intended.
     */
    List<RunningJob> takeOverdue() {
        if (settings.prefetch() != null) {
            return List.of();
        }
        List<RunningJob> overdue = waiting.takeAddedBefore(nanos.getAsLong() - LONGEST_WAIT.toNanos());
        inFlight.addAndGet(-overdue.size());
        return overdue;
    }

    /** Returns the time until {@link #takeOverdue()} would remove a job, unless it starts before; null if no job waits. */
    @Nullable
    Duration untilOverdue() {
        Long oldest = settings.prefetch() != null ? null : waiting.oldest();
        return oldest == null
                ? null
                : Duration.ofNanos(Math.max(0, oldest + LONGEST_WAIT.toNanos() - nanos.getAsLong()));
    }

    void add(RunningJob running) {
        inFlight.incrementAndGet();
        waiting.add(running, nanos.getAsLong());
        startRunner();
    }

    /** Returns whether claimed jobs may wait for a thread that could not be started. */
    boolean lacksThreads() {
        return lacksThreads;
    }

    /** Tries again to start a thread if the last attempt failed. */
    void startMissingThreads() {
        if (lacksThreads) {
            startRunner();
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
            for (List<RunningJob> next = waiting.poll(); !next.isEmpty(); next = waiting.poll()) {
                long start = nanos.getAsLong();
                try {
                    runJobs.accept(next);
                } finally {
                    measured(start, nanos.getAsLong(), next.size());
                    int left = inFlight.addAndGet(-next.size());
                    int half = capacity() / 2;
                    if (left < slots() || (left <= half && left + next.size() > half)) {
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

    private void measured(long start, long end, int jobs) {
        double took = (double) (end - start) / jobs;
        double mean = meanNanos;
        meanNanos = mean == Double.MAX_VALUE ? took : mean + WEIGHT * (took - mean);
        lastEnd = end;
    }

    /** Claimed jobs without a slot: the most urgent first, and every sixteenth time the oldest. */
    private static final class Waiting {

        private static final int AGING = 16;

        private record Entry(long number, RunningJob running, long addedAt) {}

        private final SortedMap<Integer, Deque<Entry>> byPriority = new TreeMap<>(Comparator.reverseOrder());
        private long added;
        private long polled;
        private int size;

        synchronized void add(RunningJob running, long now) {
            byPriority
                    .computeIfAbsent(running.claimed().queue().priority(), p -> new ArrayDeque<>())
                    .add(new Entry(added++, running, now));
            size++;
            // Wakes those who wait for more jobs of a handler that takes many at a time.
            notifyAll();
        }

        /** Returns when the oldest job was added; null if there is none. */
        synchronized @Nullable Long oldest() {
            Long oldest = null;
            for (Deque<Entry> entries : byPriority.values()) {
                long first = entries.element().addedAt;
                oldest = oldest == null || first - oldest < 0 ? Long.valueOf(first) : oldest;
            }
            return oldest;
        }

        synchronized List<RunningJob> takeAddedBefore(long time) {
            var taken = new ArrayList<RunningJob>();
            byPriority.values().removeIf(entries -> {
                while (!entries.isEmpty() && entries.element().addedAt - time < 0) {
                    taken.add(entries.remove().running);
                }
                return entries.isEmpty();
            });
            size -= taken.size();
            return taken;
        }

        /** Removes the next job, with as many jobs of the same handler as it takes at a time; empty if there is none. */
        synchronized List<RunningJob> poll() {
            if (size == 0) {
                return List.of();
            }
            Deque<Entry> entries = Objects.requireNonNull(byPriority.get(byPriority.firstKey()));
            if (polled++ % AGING == AGING - 1) {
                for (Deque<Entry> others : byPriority.values()) {
                    entries = others.element().number < entries.element().number ? others : entries;
                }
            }
            RunningJob next = entries.element().running;
            JobHandler.Bulk bulk = next.handler().target().bulk();
            if (bulk == null) {
                entries.remove();
                removed(next, entries, 1);
                return List.of(next);
            }
            var together = new ArrayList<RunningJob>();
            take(next, bulk.size(), together);
            long deadline = System.nanoTime() + bulk.patience().toNanos();
            while (together.size() < bulk.size() && awaitMore(deadline)) {
                take(next, bulk.size(), together);
            }
            return together;
        }

        /** Moves jobs that have the priority and the handler of this one. */
        private void take(RunningJob like, int most, List<RunningJob> together) {
            Deque<Entry> entries = byPriority.get(like.claimed().queue().priority());
            if (entries == null) {
                return;
            }
            int before = together.size();
            for (Iterator<Entry> each = entries.iterator(); each.hasNext() && together.size() < most; ) {
                RunningJob running = each.next().running;
                if (running.handler().name().equals(like.handler().name())) {
                    together.add(running);
                    each.remove();
                }
            }
            removed(like, entries, together.size() - before);
        }

        private void removed(RunningJob like, Deque<Entry> entries, int number) {
            if (entries.isEmpty()) {
                byPriority.remove(like.claimed().queue().priority());
            }
            size -= number;
        }

        /** Waits until a job is added; false if the time is over or the thread is interrupted. */
        @SuppressWarnings("WaitNotInLoop") // The caller looks again.
        private boolean awaitMore(long deadline) {
            long millis = (deadline - System.nanoTime()) / 1_000_000;
            if (millis <= 0) {
                return false;
            }
            try {
                wait(millis);
                return true;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }

        synchronized int size() {
            return size;
        }
    }
}

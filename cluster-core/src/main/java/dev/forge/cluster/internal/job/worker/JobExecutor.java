// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.JobClaimStore;
import dev.forge.cluster.internal.job.store.JobQueueStore.Queue;
import dev.forge.cluster.internal.job.worker.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
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
 *
 * <p>A call occupies one slot, however many jobs it takes.
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

    /** Returns how many calls could start immediately. */
    int idle() {
        return Math.max(0, usableSlots() - waiting.calls());
    }

    /** Returns how many jobs of a queue could start immediately: those that idle slots and calls that are not full yet take. */
    int idleFor(Queue queue, JobHandler handler) {
        return missingFor(queue, handler) + idle() * callSize(handler);
    }

    /** Returns how many jobs of a queue are awaited by calls that are not full yet. */
    int missingFor(Queue queue, JobHandler handler) {
        return waiting.missing(new Kind(handler.name(), queue.priority()));
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
    boolean hasRoom() {
        return idle() > 0 || isWaitingForJobs() || roomAhead() > 0;
    }

    /** Returns whether a call is not full yet and waits for more jobs. */
    boolean isWaitingForJobs() {
        return waiting.missing() > 0;
    }

    /**
     * Returns how many jobs of a queue to claim now; 0 while there are enough. Jobs of a handler that takes many at a time wait only in
     * the number of a full call: a slot that became idle would take the few that wait.
     */
    int roomFor(Queue queue, JobHandler handler) {
        int size = callSize(handler);
        int present = size == 1 ? 0 : waiting.count(new Kind(handler.name(), queue.priority()));
        int fullCalls = (present + roomAhead()) / size;
        return idleFor(queue, handler) + Math.max(0, fullCalls * size - present);
    }

    /** Returns the largest number of jobs that a call of a handler takes. */
    static int callSize(JobHandler handler) {
        JobHandler.Bulk bulk = handler.target().bulk();
        return bulk == null ? 1 : bulk.size();
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

    /** Adds claimed jobs of one queue: all at once, so that a handler that takes many of them gets them together. */
    void add(List<RunningJob> claimed) {
        inFlight.addAndGet(claimed.size());
        int calls = waiting.add(claimed, nanos.getAsLong());
        for (int i = 0; i < calls; i++) {
            startRunner();
        }
    }

    /** Returns whether claimed jobs may wait for a thread that could not be started. */
    boolean lacksThreads() {
        return lacksThreads;
    }

    /** Starts threads for waiting calls, if that failed before, or if there were fewer slots when the calls were added. */
    void startMissingThreads() {
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
            for (List<RunningJob> next = next(); !next.isEmpty(); next = next()) {
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
    private List<RunningJob> next() {
        Call call = waiting.poll();
        if (call == null) {
            return List.of();
        }
        if (call.size > 1) {
            takeMore(call);
        }
        return call.jobs;
    }

    /** Lets a call wait for more jobs, and others be claimed in the place of those that it has, although no slot is idle. */
    private void takeMore(Call call) {
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

    /** Jobs that one call can take. */
    private record Kind(String name, int priority) {

        static Kind of(RunningJob job) {
            return new Kind(job.handler().name(), job.claimed().queue().priority());
        }
    }

    /** A call that occupies a slot. It is full when it has enough jobs, or enough bytes. */
    private static final class Call {

        private final Kind kind;
        private final int size;
        private final Duration patience;
        private final List<RunningJob> jobs = new ArrayList<>(1);
        private long bytes;

        Call(Kind kind, JobHandler.@Nullable Bulk bulk) {
            this.kind = kind;
            this.size = bulk == null ? 1 : bulk.size();
            this.patience = bulk == null ? Duration.ZERO : bulk.patience();
        }

        void add(RunningJob job) {
            jobs.add(job);
            bytes += job.claimed().bytes();
        }

        int missing() {
            return bytes < JobClaimStore.CLAIM_BYTES ? size - jobs.size() : 0;
        }
    }

    /** Calls that run, and claimed jobs without a slot: the most urgent first, and every sixteenth time the oldest. */
    private static final class Waiting {

        private static final int AGING = 16;

        private record Entry(long number, RunningJob running, long addedAt) {}

        /** Waiting jobs of a handler that takes many at a time. */
        private record Many(int jobs, int callSize) {

            int calls() {
                return (jobs + callSize - 1) / callSize;
            }
        }

        private final SortedMap<Integer, Deque<Entry>> byPriority = new TreeMap<>(Comparator.reverseOrder());
        /** Counts of the waiting jobs whose handlers take many at a time. */
        private final Map<Kind, Many> many = new HashMap<>();
        /** Calls that wait for more jobs. */
        private final List<Call> open = new ArrayList<>();

        private long added;
        private long polled;
        private final AtomicInteger size = new AtomicInteger();
        /** The number of calls that the waiting jobs make. */
        private final AtomicInteger waitingCalls = new AtomicInteger();

        private final AtomicInteger running = new AtomicInteger();

        /** Adds jobs of one queue; returns how many more calls wait for a slot. */
        synchronized int add(List<RunningJob> claimed, long now) {
            int before = waitingCalls.get();
            for (RunningJob job : claimed) {
                if (!completes(job)) {
                    byPriority
                            .computeIfAbsent(job.claimed().queue().priority(), p -> new ArrayDeque<>())
                            .add(new Entry(added++, job, now));
                    count(job, 1);
                }
            }
            return Math.max(0, waitingCalls.get() - before);
        }

        /** Adds a job to a call that waits for more; false if there is none. */
        private boolean completes(RunningJob job) {
            for (Call call : open) {
                if (call.missing() > 0 && call.kind.equals(Kind.of(job))) {
                    call.add(job);
                    if (call.missing() == 0) {
                        notifyAll();
                    }
                    return true;
                }
            }
            return false;
        }

        private void count(RunningJob job, int change) {
            size.addAndGet(change);
            JobHandler.Bulk bulk = job.handler().target().bulk();
            if (bulk == null) {
                waitingCalls.addAndGet(change);
                return;
            }
            Kind kind = Kind.of(job);
            Many before = many.getOrDefault(kind, new Many(0, bulk.size()));
            var after = new Many(before.jobs + change, before.callSize);
            waitingCalls.addAndGet(after.calls() - before.calls());
            if (after.jobs == 0) {
                many.remove(kind);
            } else {
                many.put(kind, after);
            }
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
            taken.forEach(job -> count(job, -1));
            return taken;
        }

        /** Begins a call for the next job, with as many jobs of the same handler as it takes at a time; null if no job waits. */
        synchronized @Nullable Call poll() {
            if (size.get() == 0) {
                return null;
            }
            Deque<Entry> entries = Objects.requireNonNull(byPriority.get(byPriority.firstKey()));
            if (polled++ % AGING == AGING - 1) {
                for (Deque<Entry> others : byPriority.values()) {
                    entries = others.element().number < entries.element().number ? others : entries;
                }
            }
            RunningJob first = entries.element().running;
            var call = new Call(Kind.of(first), first.handler().target().bulk());
            for (Iterator<Entry> each = entries.iterator(); each.hasNext() && call.missing() > 0; ) {
                RunningJob job = each.next().running;
                if (job.handler().name().equals(first.handler().name())) {
                    each.remove();
                    count(job, -1);
                    call.add(job);
                }
            }
            if (entries.isEmpty()) {
                byPriority.remove(call.kind.priority);
            }
            running.incrementAndGet();
            return call;
        }

        /**
         * Lets a call take jobs that are added; false if it need not or must not wait for more. Only one call of a handler waits: jobs of
         * many priorities would occupy all slots otherwise.
         */
        synchronized boolean open(Call call) {
            boolean waits = call.missing() > 0
                    && !call.patience.isZero()
                    && open.stream().noneMatch(other -> other.kind.name.equals(call.kind.name));
            return waits && open.add(call);
        }

        /** From now on a call takes no more jobs. */
        synchronized void close(Call call) {
            open.remove(call);
        }

        /** Waits until an open call is full, its patience is over or the thread is interrupted. */
        synchronized void fill(Call call) {
            long deadline = System.nanoTime() + call.patience.toNanos();
            try {
                long millis = call.patience.toMillis();
                while (call.missing() > 0 && millis > 0) {
                    wait(millis);
                    millis = (deadline - System.nanoTime()) / 1_000_000;
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        /** Ends a call; returns what is still {@linkplain #present() present}. */
        int ended() {
            return running.decrementAndGet() + size.get();
        }

        /** Returns the number of calls that wait for a slot. */
        int waitingCalls() {
            return waitingCalls.get();
        }

        /** Returns the number of calls that run or wait for a slot. */
        int calls() {
            return running.get() + waitingCalls.get();
        }

        /** Returns the number of calls that run and jobs that wait for a slot. */
        int present() {
            return running.get() + size.get();
        }

        /** Returns how many jobs the calls that are not full wait for. */
        synchronized int missing() {
            return open.stream().mapToInt(Call::missing).sum();
        }

        synchronized int missing(Kind kind) {
            return open.isEmpty()
                    ? 0
                    : open.stream()
                            .filter(call -> call.kind.equals(kind))
                            .mapToInt(Call::missing)
                            .sum();
        }

        /** Returns the number of waiting jobs of a handler that takes many at a time. */
        synchronized int count(Kind kind) {
            Many waiting = many.get(kind);
            return waiting == null ? 0 : waiting.jobs;
        }

        int size() {
            return size.get();
        }
    }
}

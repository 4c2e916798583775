// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.finish;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.FailureRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * The thread that writes the results of jobs. It takes all results that were added during its last statement: one at a time under
 * low load, hundreds under high load. It never waits for a larger batch. Results whose rows another transaction has locked are
 * retried apart from all others.
 */
public final class Finisher {

    private static final Logger log = GuardedLogger.of(Finisher.class);

    private static final int BATCH = 500;

    /** How many rows that cannot be changed are tried again at a time. */
    private static final int MOST_UNWRITABLE = 10;

    /** The approximate number of characters in one statement. */
    private static final long LARGEST = 8_000_000;

    private static final Duration FIRST_RETRY = Duration.ofMillis(50);
    private static final Duration LAST_RETRY = Duration.ofSeconds(1);
    private static final Duration POLL = Duration.ofMillis(500);

    private final LongSupplier nanos;
    private final Runnable setLogContext;
    private final FinishWriter writer;
    private final LinkedBlockingQueue<JobEnd> ended = new LinkedBlockingQueue<>();

    /** Results whose rows another transaction has locked. Written by the finishing thread alone. */
    private final Map<JobEnd, Retry> locked = new ConcurrentHashMap<>();

    private boolean lockReported;

    /** How many times in a row not all results could be written. */
    private int failures;

    /** Permits: a result was added, or the thread must stop. */
    private final Semaphore added = new Semaphore(0);

    private final CountDownLatch stopped = new CountDownLatch(1);
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;

    /**
     * When a locked row is tried again.
     *
     * @param delay the delay before that, doubled each time
     * @param at by the clock of this JVM
     */
    private record Retry(Duration delay, long at) {

        static Retry after(Duration delay, long now) {
            return new Retry(delay, now + delay.toNanos());
        }

        Retry next(long now) {
            return after(doubled(delay), now);
        }
    }

    private static Duration doubled(Duration delay) {
        Duration twice = delay.multipliedBy(2);
        return twice.compareTo(LAST_RETRY) < 0 ? twice : LAST_RETRY;
    }

    /**
     * Creates a finisher.
     *
     * @param setLogContext puts the identity of the node into the logging context of the finishing thread
     */
    public Finisher(JobFinishStore finishes, HeldJobStore held, LongSupplier nanos, Runnable setLogContext) {
        this.nanos = nanos;
        this.setLogContext = setLogContext;
        this.writer = new FinishWriter(finishes, held, nanos, this::retryLater);
    }

    /** Starts the thread; may be called once. */
    public void start() {
        Thread starting = new Thread(this::run, "forge-cluster-finish");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    /** Stops the thread. Results that it cannot write within that time are lost; the jobs are recovered. */
    public void stop(Duration patience) throws InterruptedException {
        stopping = true;
        added.release();
        Thread ending = thread;
        thread = null;
        if (ending != null) {
            try {
                ending.join(patience.toMillis());
            } finally {
                stopped.countDown();
            }
        }
    }

    public void add(JobEnd end) {
        ended.add(end);
        added.release();
    }

    /** Returns whether the thread is alive, if it should be. */
    public boolean isAlive() {
        Thread writing = thread;
        return writing == null || writing.isAlive();
    }

    /** Returns how many results are not written yet. */
    public int backlog() {
        return ended.size() + locked.size();
    }

    private void run() {
        var batch = new ArrayList<JobEnd>(BATCH);
        Duration retry = FIRST_RETRY;
        try {
            while (!(stopping && ended.isEmpty() && batch.isEmpty() && locked.isEmpty())) {
                boolean gathered = gather(batch);
                if (stopping
                        && !gathered
                        && !locked.isEmpty()
                        && stopped.await(untilLockedRetry().toMillis(), TimeUnit.MILLISECONDS)) {
                    return;
                }
                List<JobEnd> again = dueAgain();
                if (!gathered && again.isEmpty()) {
                    continue;
                }
                if (writes(batch, again)) {
                    retry = FIRST_RETRY;
                } else if (stopped.await(retry.toMillis(), TimeUnit.MILLISECONDS)) {
                    return;
                } else {
                    retry = doubled(retry);
                }
            }
        } catch (InterruptedException e) {
            log.debug("Finisher interrupted with {} unwritten results", ended.size() + batch.size() + locked.size());
        }
    }

    /** Takes the results that were added, up to a batch; false if there are none. */
    private boolean gather(List<JobEnd> batch) throws InterruptedException {
        // Before the poll: a result that is added after it releases a new permit.
        added.drainPermits();
        JobEnd next = ended.poll();
        if (next == null
                && batch.isEmpty()
                && !stopping
                && added.tryAcquire(untilLockedRetry().toNanos(), TimeUnit.NANOSECONDS)) {
            next = ended.poll();
        }
        long size = 0;
        while (next != null) {
            batch.add(next);
            size += next.finish().length();
            next = batch.size() < BATCH && size < LARGEST ? ended.poll() : null;
        }
        return !batch.isEmpty();
    }

    /** Writes what it can. The thread survives every failure: without it no job would ever end. */
    private boolean writes(List<JobEnd> batch, List<JobEnd> again) {
        Throwable failure;
        try {
            setLogContext.run();
            failure = writer.write(batch);
            if (failure == null && !again.isEmpty()) {
                failure = writeAgain(again);
            }
        } catch (Throwable e) {
            failure = e;
        }
        batch.removeIf(one -> one.isSettled() || locked.containsKey(one));
        if (failure != null) {
            report(batch.size(), failure);
            return false;
        }
        if (failures > 0) {
            log.info("Writing results of jobs again after {}", FailureRow.text(failures));
            failures = 0;
        }
        return true;
    }

    /** Logs a failure once, until all results can be written again. */
    private void report(int jobs, Throwable failure) {
        if (failures++ > 0) {
            return;
        }
        if (DatabaseFailure.kind(failure) == DatabaseFailure.Kind.CONNECTION_LOST) {
            log.warn("Could not write the results of {} jobs; retrying: {}", jobs, DatabaseFailure.brief(failure));
        } else {
            log.warn("Could not write the results of {} jobs; retrying", jobs, failure);
        }
    }

    // Locked rows ---------------------------------------------------------------------------------------------

    private void retryLater(JobEnd one) {
        locked.putIfAbsent(one, Retry.after(FIRST_RETRY, nanos.getAsLong()));
    }

    private Duration untilLockedRetry() {
        long now = nanos.getAsLong();
        long first = locked.values().stream()
                .mapToLong(retry -> Math.max(0, retry.at - now))
                .min()
                .orElse(POLL.toNanos());
        return Duration.ofNanos(Math.min(first, POLL.toNanos()));
    }

    private List<JobEnd> dueAgain() {
        if (locked.isEmpty()) {
            return List.of();
        }
        long now = nanos.getAsLong();
        var due = new ArrayList<JobEnd>();
        long size = 0;
        int unwritable = 0;
        for (Map.Entry<JobEnd, Retry> entry : locked.entrySet()) {
            if (entry.getValue().at - now <= 0 && due.size() < BATCH && size < LARGEST) {
                // They are written one by one, and other results must not wait for many of them.
                if (writer.isUnwritable(entry.getKey()) && ++unwritable > MOST_UNWRITABLE) {
                    continue;
                }
                due.add(entry.getKey());
                size += entry.getKey().finish().length();
            }
        }
        return due;
    }

    private @Nullable Throwable writeAgain(List<JobEnd> again) {
        Throwable failure = writer.writeUnlocked(
                again.stream().filter(one -> !writer.isUnwritable(one)).toList());
        for (JobEnd one : again) {
            if (failure == null && !one.isSettled() && writer.isUnwritable(one)) {
                failure = writer.writeUnwritable(one);
            }
        }
        for (JobEnd one : again) {
            if (one.isSettled()) {
                locked.remove(one);
            } else {
                Retry next = locked.computeIfPresent(one, (key, retry) -> retry.next(nanos.getAsLong()));
                if (next != null && next.delay.equals(LAST_RETRY) && !lockReported && !writer.isUnwritable(one)) {
                    lockReported = true;
                    log.warn(
                            "Job {} ({}): another transaction has locked its row. The result is written when that transaction"
                                    + " ends; other jobs are not affected. The view pg_locks shows who holds the lock.",
                            one.name(),
                            one.key().id());
                }
            }
        }
        lockReported &= !locked.isEmpty();
        return failure;
    }
}

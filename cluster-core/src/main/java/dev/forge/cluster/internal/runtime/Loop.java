// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.scheduling.TaskScheduler;

/**
 * Runs a pass again and again, one at a time, with a pause that may change from pass to pass. A pass that throws is logged and
 * retried after the pause; the end of such a row of failures is logged when the database is proven to answer again, not by a pass
 * that had nothing to do. A loop ends only when it is stopped, even if the computation of the pause throws.
 */
public final class Loop {

    private static final Logger log = GuardedLogger.of(Loop.class);

    /** How long a pass may take before its loop counts as stuck, unless the loop says otherwise. */
    public static final Duration PASS_PATIENCE = Duration.ofSeconds(15);

    /** The pause of a loop whose own pause could not be computed. */
    private static final Duration AFTER_FAILED_PAUSE = Duration.ofSeconds(1);

    private final String name;
    private final Supplier<Duration> pause;
    private final Runnable pass;
    private final TaskScheduler scheduler;
    private final LongSupplier nanos;
    private final Duration patience;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition idle = lock.newCondition();
    private boolean started;
    private boolean passing;
    private boolean woken;
    private final FailureLog failures;
    private long lastEnd;
    private Duration lastPause = Duration.ZERO;
    private @Nullable ScheduledFuture<?> next;

    /**
     * What loops run with.
     *
     * @param scheduler runs the passes
     * @param nanos a monotonic clock
     * @param contactSince whether the database has answered something that this node has sent after a time of that clock
     */
    public record Environment(TaskScheduler scheduler, LongSupplier nanos, LongPredicate contactSince) {}

    public Loop(String name, Supplier<Duration> pause, Runnable pass, Environment environment) {
        this(name, pause, pass, environment, PASS_PATIENCE);
    }

    /** @param patience how long a pass may take before the loop counts as stuck */
    public Loop(String name, Supplier<Duration> pause, Runnable pass, Environment environment, Duration patience) {
        this.patience = patience;
        this.name = name;
        this.failures =
                new FailureLog(log, "Loop " + name, new FailureRow(environment.nanos, environment.contactSince));
        this.pause = pause;
        this.pass = pass;
        this.scheduler = environment.scheduler;
        this.nanos = environment.nanos;
    }

    /** Does the duties of a pass one after the other. The failure of one keeps no other from being done; the first is thrown at the end. */
    public static void each(Runnable... duties) {
        RuntimeException first = null;
        for (Runnable duty : duties) {
            try {
                duty.run();
            } catch (RuntimeException e) {
                if (first == null) {
                    first = e;
                } else if (first != e) {
                    first.addSuppressed(e);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }

    /** Starts the loop; the first pass follows after one pause. */
    public void start() {
        lock.lock();
        try {
            started = true;
            lastEnd = nanos.getAsLong();
            schedule(nextPause());
        } finally {
            lock.unlock();
        }
    }

    /** Runs a pass now, or once more right after the one under way. */
    public void wake() {
        lock.lock();
        try {
            if (passing) {
                woken = true;
            } else if (started) {
                schedule(Duration.ZERO);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Stops the loop: no pass begins after this. Waits for the one under way; returns false if it has not ended in time. */
    public boolean stop(Duration patience) throws InterruptedException {
        lock.lock();
        try {
            started = false;
            cancelNext();
            long nanos = patience.toNanos();
            while (passing && nanos > 0) {
                nanos = idle.awaitNanos(nanos);
            }
            return !passing;
        } finally {
            lock.unlock();
        }
    }

    private void run() {
        lock.lock();
        try {
            if (!started || passing) {
                return;
            }
            passing = true;
            woken = false;
            failures.begin();
        } finally {
            lock.unlock();
        }
        Throwable failure = null;
        try {
            pass.run();
        } catch (Throwable e) {
            failure = e;
        } finally {
            ended(failure);
        }
    }

    private void ended(@Nullable Throwable failure) {
        lock.lock();
        try {
            passing = false;
            lastEnd = nanos.getAsLong();
            idle.signalAll();
            report(failure);
            if (started) {
                schedule(woken ? Duration.ZERO : nextPause());
            }
        } finally {
            lock.unlock();
        }
    }

    private Duration nextPause() {
        try {
            return pause.get();
        } catch (RuntimeException | Error e) {
            report(e);
            return AFTER_FAILED_PAUSE;
        }
    }

    // Logging may run out of memory; the loop continues.
    private void report(@Nullable Throwable failure) {
        try {
            if (failure == null) {
                failures.succeeded();
            } else {
                failures.failed("a pass failed and will be retried", failure);
            }
        } catch (RuntimeException | Error e) {
            // There is no way left to report it.
        }
    }

    public String name() {
        return name;
    }

    /** Returns whether a pass should have ended long ago: it hangs, or no thread runs the loop any more. */
    public boolean isStuck() {
        lock.lock();
        try {
            return started
                    && nanos.getAsLong() - lastEnd > lastPause.plus(patience).toNanos();
        } finally {
            lock.unlock();
        }
    }

    private void schedule(Duration delay) {
        cancelNext();
        lastPause = delay;
        next = scheduler.schedule(this::run, scheduler.getClock().instant().plus(delay));
    }

    private void cancelNext() {
        if (next != null) {
            next.cancel(false);
            next = null;
        }
    }
}

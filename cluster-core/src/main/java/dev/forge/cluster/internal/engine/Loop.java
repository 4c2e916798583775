package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.ServerFailure;
import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.scheduling.TaskScheduler;

/**
 * Name, pause, wake, pass. Runs its pass again and again, one pass at a time, with a pause that may change from pass to
 * pass. A pass that throws is logged and tried again after the pause: a loop ends only when it is stopped, also if the pause
 * itself throws.
 */
final class Loop {

    private static final Logger log = GuardedLogger.of(Loop.class);

    /** A pass that takes longer is not a pass any more. */
    static final Duration PASS_PATIENCE = Duration.ofSeconds(15);

    /** The pause of a loop whose own pause cannot be told. */
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
    private int failures;
    private long lastEnd;
    private Duration lastPause = Duration.ZERO;
    private @Nullable ScheduledFuture<?> next;

    Loop(String name, Supplier<Duration> pause, Runnable pass, TaskScheduler scheduler, LongSupplier nanos) {
        this(name, pause, pass, scheduler, nanos, PASS_PATIENCE);
    }

    /** @param patience how long a pass may take before the loop counts as stuck */
    Loop(
            String name,
            Supplier<Duration> pause,
            Runnable pass,
            TaskScheduler scheduler,
            LongSupplier nanos,
            Duration patience) {
        this.patience = patience;
        this.name = name;
        this.pause = pause;
        this.pass = pass;
        this.scheduler = scheduler;
        this.nanos = nanos;
    }

    /** The first pass follows one pause from now. */
    void start() {
        lock.lock();
        try {
            started = true;
            lastEnd = nanos.getAsLong();
            schedule(nextPause());
        } finally {
            lock.unlock();
        }
    }

    /** Runs a pass now, or once more right after the one that is running. */
    void wake() {
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

    /** No pass begins after this; returns when the running one has ended, false if it has not in that time. */
    boolean stop(Duration patience) throws InterruptedException {
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
            reportQuietly(failure);
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
            reportQuietly(e);
            return AFTER_FAILED_PAUSE;
        }
    }

    // Reporting may run out of memory. The loop goes on.
    private void reportQuietly(@Nullable Throwable failure) {
        try {
            report(failure);
        } catch (RuntimeException | Error e) {
            // There is nowhere left to say so.
        }
    }

    // Once when it begins and once when it is over: an outage must not fill the log.
    private void report(@Nullable Throwable failure) {
        if (failure == null) {
            if (failures > 0) {
                log.info("loop {}: works again after {} failed passes", name, failures);
            }
            failures = 0;
        } else if (failures++ == 0) {
            if (ServerFailure.caused(failure)) {
                log.warn("loop {}: a pass failed and will be tried again: {}", name, ServerFailure.brief(failure));
            } else {
                log.warn("loop {}: a pass failed and will be tried again", name, ErrorText.loggable(failure));
            }
        } else {
            log.debug("loop {}: pass failed {} times in a row", name, failures, failure);
        }
    }

    String name() {
        return name;
    }

    /** Whether it should have ended a pass long ago: a pass hangs, or nothing runs it any more. */
    boolean isStuck() {
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

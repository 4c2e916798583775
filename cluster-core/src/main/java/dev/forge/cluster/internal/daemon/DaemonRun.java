// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonStore.Change;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.node.NodeTime;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Guard;
import java.time.Duration;
import java.util.concurrent.locks.Condition;
import org.jspecify.annotations.Nullable;

/**
 * An instance of a daemon on this node, from the won election to the end of the term, across all restarts of its method. The
 * same instance in a later term is another run, so that no state of the earlier term is used. Thread-safe.
 */
final class DaemonRun {

    /** The time between two interrupts of a method that ignores them. */
    private static final Duration INTERRUPT_INTERVAL = Duration.ofSeconds(10);

    private static final int MAX_ERROR_LENGTH = 8_000;
    private static final int MAX_NOTE_LENGTH = 1_000;

    /** Why the method has to end. */
    enum StopReason {
        /** The node gives the instance up; the role is released when the method has ended. */
        GIVEN_UP,
        /** Another node holds the instance, or may hold it soon. */
        LOST
    }

    private final DaemonHandler handler;
    private final NodeTime time;
    private final Elector elector;
    private final long acquiredAt;
    private volatile Tenure tenure;

    private final Guard lock = new Guard();
    private final Condition stopped = lock.newCondition();
    private volatile @Nullable StopReason stop;
    private volatile boolean alive;
    private volatile DaemonStatus status;
    private @Nullable Thread thread;
    private long interruptAt;
    private int interrupts;
    private long dueAt;
    private long startedAt;
    private int failures;
    private int shortRuns;
    private int serverFailures;
    private boolean recovered;
    private @Nullable Long startLoggedAt;
    private final DaemonRowState row;

    /** @param restarts how often the instance was restarted so far */
    DaemonRun(DaemonHandler handler, Tenure tenure, int restarts, NodeTime time, Elector elector) {
        this.handler = handler;
        this.tenure = tenure;
        this.row = new DaemonRowState(restarts);
        this.time = time;
        this.elector = elector;
        this.status = handler.scope() == DaemonScope.CLUSTER ? DaemonStatus.ACQUIRING : DaemonStatus.PENDING;
        this.acquiredAt = time.nanos();
        this.dueAt = acquiredAt;
    }

    DaemonHandler handler() {
        return handler;
    }

    Tenure tenure() {
        return tenure;
    }

    String name() {
        return handler.name();
    }

    int instance() {
        return tenure.instance();
    }

    long term() {
        return tenure.term();
    }

    /** Returns the key of the run on this node: its leader role, or its name if it is not elected. */
    String key() {
        return key(handler, tenure.instance());
    }

    static String key(DaemonHandler handler, int instance) {
        return handler.scope() == DaemonScope.CLUSTER
                ? DaemonStore.role(handler.name(), instance)
                : "node:" + handler.name();
    }

    /** Returns the name for log messages. */
    String label() {
        return tenure.instance() == 0 ? handler.name() : handler.name() + "#" + tenure.instance();
    }

    boolean isElected() {
        return handler.scope() == DaemonScope.CLUSTER;
    }

    /** Returns whether this node still holds the term, by its own clock. */
    boolean isHeld() {
        return !isElected() || elector.holds(key(), term());
    }

    long acquiredAt() {
        return acquiredAt;
    }

    /** Continues the run under the new id of this node, which has joined again. */
    void moveTo(Tenure newTenure) {
        lock.run(() -> {
            tenure = newTenure;
            row.startAgain();
        });
    }

    // Start and end of the method ---------------------------------------------------------------------------

    boolean isDue() {
        return lock.call(() -> !alive
                && stop == null
                && (status == DaemonStatus.ACQUIRING
                        || status == DaemonStatus.PENDING
                        || status == DaemonStatus.RESTARTING)
                && time.nanos() - dueAt >= 0);
    }

    /** Called before the thread of the method is started. */
    void starting() {
        lock.run(() -> {
            alive = true;
            recovered = false;
            startedAt = time.nanos();
            status = DaemonStatus.RUNNING;
            row.startAgain();
        });
    }

    /** Called on the thread of the method; returns false if the method must not be called any more. */
    boolean begin() {
        return lock.call(() -> {
            thread = Thread.currentThread();
            return stop == null;
        });
    }

    /** Called on the thread of the method when the method has ended; returns how long it ran. */
    Duration returned() {
        return lock.call(() -> {
            thread = null;
            // An interrupt that came late was meant for the method.
            Thread.interrupted();
            return Duration.ofNanos(time.nanos() - startedAt);
        });
    }

    /** Called when the method has ended, before the outcome is decided. */
    void ended() {
        alive = false;
    }

    /** Returns whether a thread runs the method or is about to. */
    boolean isAlive() {
        return alive;
    }

    DaemonStatus status() {
        return status;
    }

    /** Records an exception of the method; returns the number of failures in a row. */
    int failed(Throwable failure, Duration ran, Duration recoveredAfter) {
        return lock.call(() -> {
            endedAfter(ran, recoveredAfter);
            failures = ran.compareTo(recoveredAfter) >= 0 ? 1 : failures + 1;
            row.error(ErrorText.bounded(ErrorText.storable(failure), MAX_ERROR_LENGTH));
            return failures;
        });
    }

    /** Records an exception that the database server caused; returns the number of such failures in a row. */
    int failedByServer(Throwable failure) {
        return lock.call(() -> {
            recovered = false;
            row.error(ErrorText.bounded(ErrorText.storable(failure), MAX_ERROR_LENGTH));
            return ++serverFailures;
        });
    }

    /** Counts short runs in a row, on which the delay of the next restart depends. */
    void endedAfter(Duration ran, Duration recoveredAfter) {
        lock.run(() -> {
            recovered = false;
            serverFailures = 0;
            shortRuns = ran.compareTo(recoveredAfter) >= 0 ? 1 : shortRuns + 1;
        });
    }

    int shortRuns() {
        return lock.call(() -> shortRuns);
    }

    /** Returns true once, when the method has run so long that its last error need not be shown any more. */
    boolean hasJustRecovered(Duration recoveredAfter) {
        return lock.call(() -> {
            Duration ran = Duration.ofNanos(time.nanos() - startedAt);
            if (recovered || thread == null || ran.compareTo(recoveredAfter) < 0) {
                return false;
            }
            recovered = true;
            serverFailures = 0;
            row.touch();
            return true;
        });
    }

    /** Returns whether a start should be logged: the last one was logged longer ago than the interval. */
    boolean shouldLogStart(Duration interval) {
        return lock.call(() -> {
            long now = time.nanos();
            boolean due = startLoggedAt == null || now - startLoggedAt >= interval.toNanos();
            if (due) {
                startLoggedAt = now;
            }
            return due;
        });
    }

    void restartIn(Duration delay) {
        lock.run(() -> {
            row.countRestart();
            dueAt = time.nanos() + delay.toNanos();
            become(DaemonStatus.RESTARTING);
        });
    }

    /** Ends the run: the method will not be started again in this term. */
    void finish(DaemonStatus end) {
        lock.run(() -> {
            row.released(isElected());
            become(end);
        });
    }

    /** Ends the run, so that another node may run the instance. */
    void release() {
        finish(DaemonStatus.PENDING);
    }

    private void become(DaemonStatus next) {
        status = next;
        row.touch();
    }

    // Stop --------------------------------------------------------------------------------------------------

    /**
     * Asks the method to end, and has it interrupted after the grace period. {@link StopReason#LOST} overrides {@link
     * StopReason#GIVEN_UP}; returns false if nothing changed.
     */
    boolean stop(StopReason reason, Duration grace) {
        return lock.call(() -> {
            if (stop == reason || stop == StopReason.LOST) {
                return false;
            }
            stop = reason;
            interrupts = 0;
            interruptAt = time.nanos() + grace.toNanos();
            if (alive && reason == StopReason.GIVEN_UP) {
                become(DaemonStatus.STOPPING);
            }
            stopped.signalAll();
            return true;
        });
    }

    @Nullable
    StopReason stopReason() {
        return stop;
    }

    /** Interrupts the method if an interrupt is due; returns the number of interrupts so far, or 0 if none was due. */
    int interruptIfDue() {
        return lock.call(() -> {
            if (stop == null || thread == null || time.nanos() - interruptAt < 0) {
                return 0;
            }
            interruptAt = time.nanos() + INTERRUPT_INTERVAL.toNanos();
            thread.interrupt();
            return ++interrupts;
        });
    }

    /** Ends the grace period: the first interrupt is due now. */
    void endGracePeriod() {
        lock.run(() -> {
            if (interrupts == 0) {
                interruptAt = time.nanos();
            }
        });
    }

    /** Returns the thread that runs the method; null if none does. */
    @Nullable
    Thread thread() {
        return lock.call(() -> thread);
    }

    // Asks the clock too: after a long pause of the process, this must be true before any other thread can say so.
    boolean stopRequested() {
        return stop != null || !isHeld();
    }

    /** Waits until a stop is requested; returns false after that time. */
    boolean awaitStop(Duration patience) throws InterruptedException {
        try {
            return lock.await(() -> {
                long left = patience.toNanos();
                while (!stopRequested()) {
                    if (left <= 0) {
                        return false;
                    }
                    left = stopped.awaitNanos(left);
                }
                return true;
            });
        } catch (InterruptedException e) {
            if (stop == null) {
                throw e;
            }
            Thread.currentThread().interrupt();
            return true;
        }
    }

    // Row ---------------------------------------------------------------------------------------------------

    /**
     * A change of the row that is not written yet.
     *
     * @param revision to be handed to {@link #written}
     */
    record Unwritten(DaemonRun run, Change change, int revision) {}

    /** Returns the change to be written; null if everything is written. */
    @Nullable
    Unwritten unwritten() {
        return lock.call(() -> {
            Change change = row.unwritten(tenure, status, Duration.ofNanos(time.nanos() - startedAt), recovered);
            return change == null ? null : new Unwritten(this, change, row.revision());
        });
    }

    void written(Unwritten unwritten) {
        lock.run(() -> {
            row.written(unwritten.change, unwritten.revision);
        });
    }

    /** Stores a note of the application with the next write. */
    void note(String text) {
        String bounded = ErrorText.bounded(text, MAX_NOTE_LENGTH);
        lock.run(() -> {
            row.note(bounded);
        });
    }
}

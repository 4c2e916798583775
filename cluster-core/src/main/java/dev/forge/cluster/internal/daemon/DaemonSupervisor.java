// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonRun.StopReason;
import dev.forge.cluster.internal.daemon.DaemonRun.Unwritten;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.Guard;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Condition;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.core.task.TaskRejectedException;

/**
 * Starts, watches, restarts and stops the methods of the daemons on this node. Its loop makes no database call, so that a
 * slow database cannot delay a stop. Thread-safe.
 */
final class DaemonSupervisor {

    private static final Logger log = GuardedLogger.of(DaemonSupervisor.class);
    private static final Duration WATCH_INTERVAL = Duration.ofMillis(100);
    private static final Duration IDLE_INTERVAL = Duration.ofHours(1);
    /** After a longer pause of the process this node may have lost all its terms. */
    private static final Duration LONGEST_GAP = Duration.ofSeconds(1);
    /** Ends between the end of this node's own trust in its term (3 s) and the end of its lease (5 s). */
    static final Duration GRACE_AFTER_LOSS = Duration.ofSeconds(1);

    private static final Duration START_LOG_INTERVAL = Duration.ofMinutes(1);

    private final Node node;
    private final FencedLeadership leadership;
    private final DaemonCandidacy candidacy;
    private final DaemonRestartPolicy restarts;
    private final Runnable onChange;
    // Few and long-lived platform threads, because thread dumps show them.
    private final SimpleAsyncTaskExecutor threads = new SimpleAsyncTaskExecutor("forge-daemon-");
    private final NodeLoop loop = NodeLoop.upkeep("watch-daemons", this::interval, this::watch);

    private final Guard lock;
    private final Condition changed;
    /** The runs of this node, by key. */
    private final Map<String, DaemonRun> runs = new ConcurrentHashMap<>();
    /** Runs whose term is lost and whose method has not ended. */
    private final Set<DaemonRun> lostRuns = ConcurrentHashMap.newKeySet();
    /** Runs that were released and whose row does not show that yet. */
    private final Set<DaemonRun> releasedRuns = ConcurrentHashMap.newKeySet();

    private volatile long lastWatch;

    /** @param onChange called when a row has to be written or a role was released; must not block */
    DaemonSupervisor(
            Node node,
            FencedLeadership leadership,
            DaemonCandidacy candidacy,
            DaemonRestartPolicy restarts,
            Runnable onChange) {
        this.node = node;
        this.leadership = leadership;
        this.candidacy = candidacy;
        this.restarts = restarts;
        this.onChange = onChange;
        this.lock = candidacy.lock();
        this.changed = lock.newCondition();
        threads.setDaemon(true);
    }

    NodeLoop loop() {
        return loop;
    }

    private Duration interval() {
        return isIdle() ? IDLE_INTERVAL : WATCH_INTERVAL;
    }

    /** Called when the node has joined. */
    void begin() {
        lastWatch = node.nanos();
    }

    @Nullable
    DaemonRun run(String key) {
        return runs.get(key);
    }

    boolean has(String key) {
        return runs.containsKey(key);
    }

    Collection<DaemonRun> runs() {
        return runs.values();
    }

    /** Returns whether the instance has ended: it returned, or failed more often than it may. */
    static boolean isFinal(DaemonStatus status) {
        return status == DaemonStatus.STOPPED || status == DaemonStatus.FAILED;
    }

    private boolean isIdle() {
        return lostRuns.isEmpty() && runs.values().stream().allMatch(run -> isFinal(run.status()));
    }

    /** Adds a run; the next pass starts its method. */
    void add(DaemonRun run) {
        // An instance that was paused and resumed may have the same tenure: a pending write of the earlier run is
        // outdated.
        releasedRuns.removeIf(other -> other.key().equals(run.key()));
        runs.put(run.key(), run);
        if (!candidacy.isOpen()) {
            giveUp(run);
        }
        loop.wake();
    }

    // Watch -------------------------------------------------------------------------------------------------

    /** Runs one pass: stops methods whose term is lost, starts those that are due, and interrupts those that do not end. */
    void watch() {
        long now = node.nanos();
        boolean wasPaused = now - lastWatch > LONGEST_GAP.toNanos() && !isIdle();
        lastWatch = now;
        for (DaemonRun run : runs.values()) {
            if (!run.isHeld()) {
                lose(run, wasPaused ? Duration.ZERO : GRACE_AFTER_LOSS);
            } else if (candidacy.isOpen() && run.isDue() && isSafeToStart(run)) {
                start(run);
            } else if (run.hasJustRecovered(
                    restarts.recoveredAfter(run.handler().restarts()))) {
                onChange.run();
            }
        }
        Stream.concat(runs.values().stream(), lostRuns.stream()).forEach(this::interruptIfDue);
    }

    private boolean isSafeToStart(DaemonRun run) {
        return lostRuns.stream().noneMatch(other -> other.key().equals(run.key()))
                && (!run.isElected() || node.elector().isUndisputed(run.key(), run.term()));
    }

    private void interruptIfDue(DaemonRun run) {
        int interrupts = run.interruptIfDue();
        Thread thread = run.thread();
        // Logged after the first, second, fourth interrupt and so on, because a method may ignore them for days.
        if (interrupts > 1 && Integer.bitCount(interrupts - 1) == 1 && thread != null) {
            log.warn(
                    "Daemon {} term {}: method still runs after {} interrupts. It keeps its role until it ends; make it check"
                            + " DaemonContext.stopRequested() or handle interrupts. Stack of thread {}:\n{}",
                    run.label(),
                    run.term(),
                    interrupts - 1,
                    thread.getName(),
                    StuckHandlers.stack(thread));
        }
    }

    // Start and end of methods ------------------------------------------------------------------------------

    private void start(DaemonRun run) {
        boolean starts = lock.call(() -> {
            boolean current = runs.get(run.key()) == run;
            if (current) {
                run.starting();
            }
            return current;
        });
        if (!starts) {
            return;
        }
        onChange.run();
        try {
            // Not each start of a method that returns or fails at once.
            log.atLevel(run.shouldLogStart(START_LOG_INTERVAL) ? Level.INFO : Level.DEBUG)
                    .log("Daemon {} term {}: starting on this node", run.label(), run.term());
            threads.execute(() -> execute(run));
        } catch (TaskRejectedException | OutOfMemoryError e) {
            ended(run, run.returned(), e);
        }
    }

    private void execute(DaemonRun run) {
        Thread.currentThread().setName("forge-daemon-" + run.name() + "-" + run.instance());
        Mdc.put(node.id(), node.identity());
        Mdc.put("forge.daemon.name", run.name());
        Throwable failure = null;
        Duration ran = Duration.ZERO;
        try {
            if (run.begin()) {
                run.handler()
                        .target()
                        .code()
                        .run(new DaemonRunContext(
                                run, node.elector(), node.identity().name(), leadership));
            }
        } catch (Throwable e) {
            failure = e;
        } finally {
            ran = run.returned();
        }
        ended(run, ran, failure);
    }

    private void ended(DaemonRun run, Duration ran, @Nullable Throwable failure) {
        try {
            decideAfterEnd(run, ran, failure);
        } finally {
            loop.wake();
            onChange.run();
        }
    }

    private void decideAfterEnd(DaemonRun run, Duration ran, @Nullable Throwable failure) {
        lock.run(() -> {
            run.ended();
            if (runs.get(run.key()) != run) {
                if (lostRuns.remove(run)) {
                    log.info("Daemon {} term {}: method ended after its term was lost", run.label(), run.term());
                }
            } else if (run.stopReason() != null) {
                release(run);
                log.info("Daemon {} term {}: method ended on request", run.label(), run.term());
            } else if (!run.isHeld()) {
                runs.remove(run.key(), run);
                log.info("Daemon {} term {}: method ended together with its term", run.label(), run.term());
            } else {
                restarts.decide(run, ran, failure);
            }
            changed.signalAll();
        });
    }

    // Release and loss --------------------------------------------------------------------------------------

    /** Releases an instance whose method has ended or was never started. */
    private void release(DaemonRun run) {
        // First: the elector still holds the term, and the keeping loop would start the instance in the same term
        // again.
        candidacy.remove(run.key());
        runs.remove(run.key(), run);
        run.release();
        releasedRuns.add(run);
        if (run.isElected()) {
            candidacy.withdraw(run.key());
        }
    }

    /** Asks the method to end; the instance is released when it has. */
    void giveUp(DaemonRun run) {
        lock.run(() -> {
            if (runs.get(run.key()) == run
                    && !isFinal(run.status())
                    && run.stop(StopReason.GIVEN_UP, node.settings().drainTimeout())
                    && !run.isAlive()) {
                release(run);
            }
            changed.signalAll();
        });
        onChange.run();
    }

    /** Ends a run whose term is lost. */
    void lose(DaemonRun run, Duration grace) {
        lock.run(() -> {
            if (!runs.remove(run.key(), run)) {
                return;
            }
            run.stop(StopReason.LOST, grace);
            if (run.isAlive()) {
                lostRuns.add(run);
                log.warn("Daemon {} term {}: term lost, stopping the method", run.label(), run.term());
            } else if (isFinal(run.status())) {
                // The row may still be this node's.
                releasedRuns.add(run);
            }
            changed.signalAll();
        });
    }

    /** Ends all elected runs at once, because another node may hold their terms by now. */
    void loseAll() {
        runs.values().stream().filter(DaemonRun::isElected).forEach(run -> lose(run, Duration.ZERO));
        loop.wake();
    }

    // Drain -------------------------------------------------------------------------------------------------

    /** Asks all methods to end, and withdraws from roles that this node does not run. */
    void quiesce() {
        lock.run(() -> {
            // No role is added from here on.
            candidacy.close();
            candidacy.roles().stream().filter(role -> !runs.containsKey(role)).forEach(candidacy::withdraw);
        });
        runs.values().forEach(this::giveUp);
    }

    /** Waits until no method runs; returns false after that time. */
    boolean awaitIdle(Duration patience) throws InterruptedException {
        return lock.await(() -> {
            long left = patience.toNanos();
            while (!lostRuns.isEmpty() || runs.values().stream().anyMatch(DaemonRun::isAlive)) {
                if (left <= 0) {
                    return false;
                }
                left = changed.awaitNanos(left);
            }
            return true;
        });
    }

    /** Interrupts all methods now. */
    void interruptAll() {
        Stream.concat(runs.values().stream(), lostRuns.stream()).forEach(run -> {
            run.endGracePeriod();
            run.interruptIfDue();
        });
    }

    /** Abandons roles whose methods still run: their leases expire. */
    void abandonRunning() {
        runs.values().stream().filter(run -> run.isElected() && run.isAlive()).forEach(run -> {
            log.warn(
                    "Daemon {} term {}: method did not end within forge.cluster.shutdown.drain-timeout. Another node runs the"
                            + " daemon when the lease of this node has expired.",
                    run.label(),
                    run.term());
            candidacy.abandon(run.key());
        });
    }

    /** Forgets all runs. Methods that still run are kept, so that this node does not start them again beside themselves. */
    void end() {
        lock.run(() -> {
            candidacy.close();
            candidacy.roles().forEach(candidacy::withdraw);
            runs.values().stream().filter(DaemonRun::isAlive).forEach(lostRuns::add);
            runs.clear();
        });
        lostRuns.forEach(run ->
                log.warn("Daemon {} term {}: method still runs after its node has left", run.label(), run.term()));
        releasedRuns.clear();
    }

    // Rows --------------------------------------------------------------------------------------------------

    /** Returns all changes of rows that are not written yet. */
    List<Unwritten> unwritten() {
        return Stream.concat(runs.values().stream(), releasedRuns.stream())
                .map(DaemonRun::unwritten)
                .filter(Objects::nonNull)
                .toList();
    }

    /** Called after changes were written. Rows that were not found belong to another node, and need no write any more. */
    void written(List<Unwritten> changes) {
        changes.forEach(unwritten -> {
            unwritten.run().written(unwritten);
            if (isFinal(unwritten.change().status())) {
                releaseFinished(unwritten.run());
            }
        });
        releasedRuns.removeIf(run -> run.unwritten() == null);
    }

    /** Withdraws from the role after the row shows the end. A run of scope NODE stays, so that it is not started again. */
    private void releaseFinished(DaemonRun run) {
        lock.run(() -> {
            if (run.isElected() && runs.remove(run.key(), run)) {
                candidacy.withdraw(run.key());
            }
        });
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.JobQueueStore.DueJob;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.JobExecutor;
import dev.forge.cluster.internal.job.run.JobRunner;
import dev.forge.cluster.internal.job.run.LeaseKeeper;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.FailureRow;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** The thread that claims due jobs, {@linkplain ClaimingPass pass} by pass, and pauses while there is nothing to claim. */
final class Claimer {

    private static final Logger log = GuardedLogger.of(Claimer.class);

    private static final Duration LONGEST_SILENCE = Duration.ofSeconds(15);

    private final WorkerNode node;
    private final JobRunner runner;
    private final Duration pollInterval;
    private final List<Lane> lanes;
    private final QueueFailures queueFailures;
    private final ClaimingPass pass;
    private final LimitedNames limited;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean awake;
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;
    private volatile long lastPass;

    private final FailureRow failures;
    private volatile String lastFailure = "";

    Claimer(WorkerParts dependencies, WorkerNode node, JobRunner runner, List<Lane.Selection> selections) {
        this.node = node;
        this.runner = runner;
        this.failures = new FailureRow(node::nanos, node::hasContactSince);
        this.pollInterval = dependencies.settings().pollInterval();
        this.lanes = selections.stream().map(selection -> lane(selection)).toList();
        this.queueFailures = new QueueFailures(node::nanos);
        this.limited = new LimitedNames(dependencies.stores().limits());
        this.pass = new ClaimingPass(dependencies, node, new ClaimingPass.Work(runner, limited), lanes, queueFailures);
    }

    private Lane lane(Lane.Selection selection) {
        LaneSettings settings = selection.settings();
        JobExecutor executor = runner.executor(
                // A test runs one job after another.
                node.isStepped() ? new LaneSettings(settings.name(), 1, 0, settings.virtualThreads()) : settings,
                this::continueClaiming);
        if (node.isStepped()) {
            executor.runIncompleteCalls();
        }
        return new Lane(selection, executor, new GroupTurns(pollInterval));
    }

    // Tests -------------------------------------------------------------------------------------------------

    /** Claims the next job that can start, on the caller's thread; a handler that takes many gets those that are due. */
    List<UUID> claimNext() {
        return pass.claimNext();
    }

    /** Claims one job, if it can start now. */
    List<UUID> claim(DueJob due) {
        return pass.claim(due);
    }

    // Life cycle --------------------------------------------------------------------------------------------

    /** Starts the thread, unless a test claims; may be called once. */
    void start() {
        lanes.forEach(Lane::start);
        runner.claims().onEnd(this::ended);
        lastPass = node.nanos();
        if (node.isStepped()) {
            return;
        }
        Thread starting = new Thread(this::run, "forge-cluster-claim");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    /** Stops claiming; the thread goes on. */
    void quiesce() {
        pass.quiesce();
    }

    void stop(Duration patience) throws InterruptedException {
        stopping = true;
        wake(null);
        Thread ending = thread;
        thread = null;
        if (ending != null) {
            ending.join(patience.toMillis());
        }
    }

    void closeLanes() {
        lanes.forEach(lane -> lane.executor.close());
    }

    /** Returns whether the thread is dead, or has done nothing for much longer than it should. */
    boolean isStuck() {
        Thread claiming = thread;
        return claiming != null
                && (!claiming.isAlive()
                        || node.nanos() - lastPass
                                > pollInterval.plus(LONGEST_SILENCE).toNanos());
    }

    /** Returns what keeps this node from claiming, if claims have failed several times in a row; otherwise null. */
    @Nullable
    String claimProblem() {
        int times = failures.length();
        return times >= QueueFailures.REPEATED
                ? "claims have failed %d times in a row: %s".formatted(times, lastFailure)
                : queueFailures.problem();
    }

    /** Returns how many times a job could not be read. */
    int unreadable() {
        return pass.unreadable();
    }

    void throttle(boolean whether) {
        lanes.forEach(lane -> lane.executor.throttle(whether));
    }

    /** Returns the slots, the occupied ones and the jobs of each lane. */
    Map<String, Map<String, Integer>> lanes() {
        var usage = new LinkedHashMap<String, Map<String, Integer>>();
        lanes.forEach(lane -> {
            var numbers = new LinkedHashMap<String, Integer>();
            numbers.put("slots", lane.executor.slots());
            numbers.put("busy", lane.executor.busy());
            numbers.put("jobs", lane.executor.inFlight());
            usage.put(lane.executor.name(), numbers);
        });
        return usage;
    }

    /** Requests a claim from a queue, or a search if the queue is null. */
    void wake(@Nullable Queue queue) {
        if (queue == null) {
            pass.requestSearch();
        } else if (!pass.hint(queue)) {
            return;
        }
        continueClaiming();
    }

    /** Wakes the thread because a lane has room, without a new search. */
    private void continueClaiming() {
        lock.lock();
        try {
            awake = true;
            changed.signal();
        } finally {
            lock.unlock();
        }
    }

    void limitsChanged() {
        limited.changed();
        continueClaiming();
    }

    /** A limited job has ended: another one that its limit has kept waiting can be claimed. */
    private void ended(String handler, @Nullable String group) {
        if (group != null || limited.contains(handler)) {
            lanes.forEach(lane -> lane.turns.ended(handler, group));
            continueClaiming();
        }
    }

    private void run() {
        while (!stopping) {
            Duration pause = passOrPause();
            lastPass = node.nanos();
            try {
                sleep(pause);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Makes a pass. If it fails, claims that this node does not know of are released by {@link LeaseKeeper#renew()}. */
    private Duration passOrPause() {
        try {
            node.setLogContext();
            failures.begin();
            Duration pause = pass.run();
            int failed = failures.succeeded();
            if (failed > 0) {
                log.info("Claiming jobs again after {}", FailureRow.text(failed));
            }
            return pause;
        } catch (RuntimeException | Error e) {
            // An Error, too: without this thread no job would run.
            report(e);
            return ClaimingPass.AFTER_FAILURE;
        }
    }

    /** Logs a failure once: an outage must not fill the log. */
    private void report(Throwable failure) {
        int failed = failures.failed();
        try {
            lastFailure = QueueFailures.firstLine(failure);
            if (failed > 1) {
                log.debug("Could not claim jobs {} times in a row", failed, failure);
            } else if (DatabaseFailure.kind(failure).isOfServer()) {
                log.warn("Could not claim jobs; retrying: {}", DatabaseFailure.brief(failure));
            } else {
                log.warn("Could not claim jobs; retrying", ErrorText.loggable(failure));
            }
        } catch (RuntimeException | Error e) {
            // For example out of memory. This thread must go on.
            lastFailure = failure.getClass().getName();
        }
    }

    private void sleep(Duration pause) throws InterruptedException {
        lock.lock();
        try {
            long nanos = pause.toNanos();
            while (!awake && !stopping && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
            awake = false;
        } finally {
            lock.unlock();
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.row.JobQueueStore.DueJob;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.AttemptLogs;
import dev.forge.cluster.internal.job.run.Claims;
import dev.forge.cluster.internal.job.run.JobExecution;
import dev.forge.cluster.internal.job.run.LeaseKeeper;
import dev.forge.cluster.internal.job.run.RunningJob;
import dev.forge.cluster.internal.job.run.RunningJob.Stop;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Runs jobs on this node. A {@link Claimer} claims them for lanes, whose threads run them through {@link JobExecution}, while the
 * {@link LeaseKeeper} renews their leases. All of them share the {@link Claims}.
 */
public final class Worker implements NodeComponent {

    private static final Logger log = GuardedLogger.of(Worker.class);
    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration WRITE_LOGS = Duration.ofMillis(500);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(2);
    private static final Duration RELEASE_PATIENCE = Duration.ofMillis(500);

    private final WorkerParts dependencies;
    private final WorkerNode node;
    private final List<Lane.Selection> selections;
    private final Claims claims;
    private final LeaseKeeper keeper;
    private final AttemptLogs logs;
    private final NodeLoop writeProgress;
    public final StuckHandlers stuckHandlers;
    // Created at each start: threads and handlers that the previous stop did not wait for keep the old ones.
    private volatile JobExecution execution;
    private volatile Claimer claimer;

    /** @param selections the lanes and the jobs that are claimed for them */
    public Worker(WorkerParts dependencies, WorkerNode node, List<Lane.Selection> selections) {
        WorkerSettings.Leases leases = dependencies.settings().leases();
        this.dependencies = dependencies;
        this.node = node;
        this.selections = List.copyOf(selections);
        this.claims = new Claims(node, dependencies.stores(), dependencies.monitor(), leases);
        this.keeper = new LeaseKeeper(node, dependencies.stores(), claims, leases.duration());
        this.logs = new AttemptLogs(dependencies.stores().logs(), node::nanos);
        this.writeProgress = NodeLoop.upkeep("note-jobs", () -> WATCH, keeper::writeProgress);
        this.stuckHandlers = new StuckHandlers(node::nanos);
        this.execution = new JobExecution(dependencies, node, claims, stuckHandlers);
        this.claimer = new Claimer(dependencies, node, claims, execution, this.selections);
    }

    // For tests that drive a node -----------------------------------------------------------------------------

    /** Claims the next due job and runs it, or as many as its handler takes at a time; returns their ids, none if no job can start. */
    public List<UUID> runNext() throws InterruptedException {
        return awaitEnd(claimer.claimNext());
    }

    /** Claims a due job and runs it; returns false if it cannot start now. */
    public boolean run(UUID job) throws InterruptedException {
        DueJob due = dependencies.stores().queues().find(job).orElse(null);
        return due != null && awaitEnd(claimer.claim(due)).contains(job);
    }

    /** Waits for claimed jobs, and meanwhile does what loops do for running ones. */
    private List<UUID> awaitEnd(List<RunningJob> claimed) throws InterruptedException {
        while (!claims.awaitNone(WATCH)) {
            watch();
            keeper.writeProgress();
        }
        return claimed.stream().map(RunningJob::id).toList();
    }

    @Override
    public void timeMoved() {
        // A test that moves the time does not mean that leases were not renewed meanwhile.
        claims.all().forEach(running -> running.confirmed(node.nanos()));
        watch();
        wake();
    }

    // Claiming and running ------------------------------------------------------------------------------------

    /** Stops the handler of a job that may have been cancelled, if this node runs it, with the next pass of note-jobs. */
    public void checkCancelled(UUID job) {
        keeper.checkCancelled(job);
        writeProgress.wake();
    }

    /** Wakes the claimer: jobs were enqueued or returned, or a lane may claim again. */
    public void wake() {
        claimer.wake(null);
    }

    /**
     * Wakes the claimer: jobs were enqueued.
     *
     * @param queue the queue that they are in; null if there may be several
     */
    public void wake(@Nullable Queue queue) {
        claimer.wake(queue);
    }

    /** Has the next pass read which jobs have a limit. */
    public void limitsChanged() {
        claimer.limitsChanged();
    }

    public void throttle(boolean whether) {
        claimer.throttle(whether);
    }

    /** Returns what keeps this node from claiming, if claims have failed several times in a row; otherwise null. */
    @Nullable
    public String claimProblem() {
        return claimer.claimProblem();
    }

    /** Returns how many times a job could not be read. */
    public int unreadable() {
        return claimer.unreadable();
    }

    /** Returns the slots and jobs of each lane. */
    public Map<String, Map<String, Integer>> lanes() {
        return claimer.lanes();
    }

    /** Returns the names of jobs that were claimed under a capability and have been running for longer than that time. */
    public List<String> runningFor(Duration time, String capability) {
        long now = node.nanos();
        return claims.all().stream()
                .filter(running -> running.stage() == RunningJob.Stage.STARTED
                        && capability.equals(running.claimed().queue().capability())
                        && now - running.startedAt() > time.toNanos())
                .map(RunningJob::name)
                .sorted()
                .toList();
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(
                // On its own and without database access: nothing may delay it.
                NodeLoop.upkeep("watch-jobs", () -> WATCH, this::watch),
                writeProgress,
                NodeLoop.upkeep("write-job-logs", () -> WRITE_LOGS, () -> logs.write(claims.all())),
                NodeLoop.upkeep("renew-leases", dependencies.settings().leases()::heartbeat, keeper::renew));
    }

    private void watch() {
        keeper.watch();
        stuckHandlers.watch();
    }

    /** Returns the handlers that continue although they were told to stop. */
    public StuckHandlers stuckHandlers() {
        return stuckHandlers;
    }

    @Override
    public int load() {
        return claims.size();
    }

    @Override
    public List<String> stuck() {
        var stuck = new ArrayList<String>();
        if (claimer.isStuck()) {
            stuck.add("claim");
        }
        if (execution.isStuck()) {
            stuck.add("finish");
        }
        return stuck;
    }

    @Override
    public void begin() {
        JobExecution beginning = new JobExecution(dependencies, node, claims, stuckHandlers);
        execution = beginning;
        claimer = new Claimer(dependencies, node, claims, beginning, selections);
        beginning.start();
        claimer.start();
    }

    /** Stops the threads. Leases are renewed until then: a draining handler needs its lease. */
    @Override
    public void end() throws InterruptedException {
        quiesce();
        try {
            claimer.stop(STOP_PATIENCE);
        } finally {
            try {
                execution.stop(STOP_PATIENCE);
            } finally {
                claimer.closeLanes();
                claims.loseAll("the node has left the cluster");
            }
        }
    }

    @Override
    public void quiesce() {
        claimer.quiesce();
        claims.withdraw();
        claims.all().forEach(RunningJob::ask);
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        return claims.awaitNone(patience);
    }

    @Override
    public void release() {
        List.copyOf(claims.all()).forEach(running -> running.stop(Stop.DRAIN));
        boolean interrupted = false;
        try {
            // Handlers that respect the interrupt end properly.
            awaitIdle(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            // Restored later: an interrupted thread gets no connection to return jobs.
            interrupted = true;
        }
        releaseUnresponsive();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void releaseUnresponsive() {
        // Handlers whose end is being written have ended.
        List<RunningJob> unresponsive =
                claims.all().stream().filter(running -> !running.isEnding()).toList();
        if (!unresponsive.isEmpty()) {
            log.warn(
                    "{} jobs did not end within forge.cluster.shutdown.drain-timeout and ignore the interrupt. Attempts that"
                            + " exceeded their timeout count as failed; the other jobs are returned to the queue: {}",
                    unresponsive.size(),
                    unresponsive.stream()
                            .map(running -> running.name() + " " + running.id())
                            .limit(10)
                            .toList());
            unresponsive.forEach(RunningJob::released);
            // An attempt that exceeded its timeout has failed, whether its handler respects the interrupt or not.
            List<RunningJob> overdue = unresponsive.stream()
                    .filter(running -> running.stopReason() == Stop.TIMEOUT)
                    .toList();
            claims.giveUp(overdue, execution::timedOut);
            claims.giveBack(unresponsive.stream()
                    .filter(running -> !overdue.contains(running))
                    .toList());
            unresponsive.forEach(running -> running.stop(Stop.LOST));
        }
    }

    @Override
    public void lost() {
        claims.loseAll("this node was declared dead");
    }
}

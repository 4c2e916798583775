// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.row.JobQueueStore.DueJob;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.JobRunner;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The worker of this node: a {@link Claimer} claims jobs for lanes, and the {@link JobRunner} runs them. */
public final class Worker implements NodeComponent {

    private static final Duration STOP_PATIENCE = Duration.ofSeconds(2);

    private final WorkerParts parts;
    private final WorkerNode node;
    private final List<Lane.Selection> selections;
    private final JobRunner runner;
    // Created at each start: a thread that the previous stop did not wait for keeps the old one.
    private volatile Claimer claimer;

    /** @param selections the lanes and the jobs that are claimed for them */
    public Worker(WorkerParts parts, WorkerNode node, List<Lane.Selection> selections) {
        this.parts = parts;
        this.node = node;
        this.selections = List.copyOf(selections);
        this.runner = new JobRunner(parts, node);
        this.claimer = new Claimer(parts, node, runner, this.selections);
    }

    // For tests that drive a node -----------------------------------------------------------------------------

    /** Claims the next due job and runs it, or as many as its handler takes at a time; returns their ids, none if no job can start. */
    public List<UUID> runNext() throws InterruptedException {
        return awaitEnd(claimer.claimNext());
    }

    /** Claims a due job and runs it; returns false if it cannot start now. */
    public boolean run(UUID job) throws InterruptedException {
        DueJob due = parts.stores().queues().find(job).orElse(null);
        return due != null && awaitEnd(claimer.claim(due)).contains(job);
    }

    private List<UUID> awaitEnd(List<UUID> claimed) throws InterruptedException {
        runner.awaitEnd();
        return claimed;
    }

    @Override
    public void timeMoved() {
        runner.timeMoved();
        wake();
    }

    // Claiming and running ------------------------------------------------------------------------------------

    /** Stops the handler of a job that may have been cancelled, if this node runs it, with the next pass of note-jobs. */
    public void checkCancelled(UUID job) {
        runner.checkCancelled(job);
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

    /** Makes the next pass read again which jobs have a limit. */
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
        return runner.runningFor(time, capability);
    }

    /** Returns the handlers that continue although they were told to stop. */
    public StuckHandlers stuckHandlers() {
        return runner.stuckHandlers();
    }

    @Override
    public List<NodeLoop> loops() {
        return runner.loops();
    }

    @Override
    public int load() {
        return runner.claims().size();
    }

    @Override
    public List<String> stuck() {
        var stuck = new ArrayList<String>();
        if (claimer.isStuck()) {
            stuck.add("claim");
        }
        if (runner.isStuck()) {
            stuck.add("finish");
        }
        return stuck;
    }

    @Override
    public void begin() {
        runner.renew();
        claimer = new Claimer(parts, node, runner, selections);
        runner.start();
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
                runner.stop(STOP_PATIENCE);
            } finally {
                claimer.closeLanes();
                runner.claims().loseAll("the node has left the cluster");
            }
        }
    }

    @Override
    public void quiesce() {
        claimer.quiesce();
        runner.quiesce();
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        return runner.claims().awaitNone(patience);
    }

    @Override
    public void release() {
        runner.release();
    }

    @Override
    public void lost() {
        runner.claims().loseAll("this node was declared dead");
    }
}

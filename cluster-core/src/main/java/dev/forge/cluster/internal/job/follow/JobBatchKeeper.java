// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobBatchStore.Changed;
import dev.forge.cluster.internal.job.row.JobBatchStore.Slice;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Notices that batches have failed, ended or succeeded, and cancels or retries their jobs on request. A node checks the batches of the
 * jobs that it ends. The leader of the scheduler role checks all others in turns: those whose node has crashed meanwhile, and those
 * whose jobs were changed by hand.
 */
public final class JobBatchKeeper {

    private static final int MOST_CHECKED = 500;
    private static final int MOST_UNSUCCESSFUL_CHECKED = 100;

    private static final Duration LONGEST_CHANGE = Duration.ofSeconds(1);

    /** How many jobs one statement cancels or retries. */
    private static final int MOST_CHANGED = 1_000;

    private static final int MOST_ADDED_UP = 10_000;

    private final Node node;
    private final JobBatchStore batches;
    private final JobCancelStore cancels;
    private final JobRestartStore restarts;
    private final JobReleaseStore successors;
    private final Announcer announcer;
    private final FollowUps followUps;
    private @Nullable UUID lastUnended;
    private @Nullable UUID lastUnsuccessful;

    /** Informs workers. */
    public interface Announcer {

        /** Called if jobs are pending again. */
        void announce(JobPriority priority);

        /** Called for a job that was cancelled. */
        void cancelled(CancelledJob job);
    }

    public JobBatchKeeper(Node node, JobReleaseStore successors, Announcer announcer) {
        Schema schema = node.resources().schema();
        DataSource source = node.resources().control();
        this.node = node;
        this.batches = new JobBatchStore(schema, source);
        this.cancels = new JobCancelStore(schema, source);
        this.restarts = new JobRestartStore(schema, source);
        this.successors = successors;
        this.announcer = announcer;
        this.followUps = new FollowUps("check-batches", node::nanos, ids -> {
            check(ids);
            ids.clear();
        });
        if (node.isStepped()) {
            followUps.neverPause();
        }
    }

    public NodeLoop loop() {
        return followUps.loop();
    }

    /** Schedules a check of a batch that was changed, or of which a job has ended. */
    public void changed(UUID batch) {
        followUps.add(batch);
    }

    /** Checks the next batches that have not ended, and some of those with failed jobs. */
    public void sweep() {
        Slice unended = batches.unended(lastUnended, MOST_CHECKED);
        Slice unsuccessful = batches.unsuccessful(lastUnsuccessful, MOST_UNSUCCESSFUL_CHECKED);
        // Before the check: if it fails, the next sweep must get to the other batches nevertheless.
        lastUnended = unended.last();
        lastUnsuccessful = unsuccessful.last();
        var all = new ArrayList<>(unended.ids());
        all.addAll(unsuccessful.ids());
        if (!all.isEmpty()) {
            check(all);
            addUp(all);
        }
    }

    private void addUp(List<UUID> ids) {
        long began = node.nanos();
        int replaced;
        do {
            replaced = batches.addUp(ids, MOST_ADDED_UP);
        } while (replaced == MOST_ADDED_UP && node.nanos() - began < LONGEST_CHANGE.toNanos());
    }

    private void check(List<UUID> ids) {
        FollowUps.apart(batches.unfinished(ids), this::carryOut);
        FollowUps.apart(ids, this::settle);
    }

    private void settle(List<UUID> ids) {
        int released = 0;
        for (Changed change : batches.settle(ids)) {
            // A run of a workflow may have begun to wait while the statement could not see that.
            released += change.released() + successors.freeSuccessorsOf(change.id());
            UUID parent = change.parent();
            if (parent != null) {
                changed(parent);
            }
        }
        if (released > 0) {
            announcer.announce(JobPriority.NORMAL);
        }
    }

    /** Cancels and retries jobs as requested, a limited number with each statement, and for a limited time. */
    private void carryOut(List<UUID> requested) {
        if (requested.isEmpty()) {
            return;
        }
        List<UUID> parts = batches.passOn(requested, MOST_CHANGED);
        parts.forEach(this::changed);
        long began = node.nanos();
        int changed;
        do {
            List<CancelledJob> cancelled = cancels.cancelOfBatches(requested, MOST_CHANGED);
            cancelled.forEach(announcer::cancelled);
            int retried = restarts.restartOfBatches(requested, MOST_CHANGED);
            if (retried > 0) {
                announcer.announce(JobPriority.NORMAL);
            }
            changed = Math.max(cancelled.size(), retried);
        } while (changed == MOST_CHANGED && node.nanos() - began < LONGEST_CHANGE.toNanos());
        if (changed < MOST_CHANGED && parts.size() < MOST_CHANGED) {
            batches.endRetries(requested);
        }
        // The rest follows with the next pass; jobs whose rows are locked, too.
        batches.unfinished(requested).forEach(this::changed);
    }
}

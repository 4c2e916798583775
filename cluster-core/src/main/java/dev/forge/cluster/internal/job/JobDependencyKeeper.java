// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.store.JobDependencyStore;
import dev.forge.cluster.internal.job.store.JobDependencyStore.Decided;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Releases jobs that run after other jobs. A node that ends a job decides about those that wait for it, as long as any job waits for
 * others. The leader of the scheduler role decides about all others in turns: a node may have crashed, or somebody changed a row.
 */
final class JobDependencyKeeper {

    private static final int MOST_CHECKED = 500;

    private final JobDependencyStore dependencies;
    private final Runnable onReleased;
    private final Consumer<UUID> onBatchChanged;
    private final FollowUps followUps;

    private final PossibleWaiters waiters = new PossibleWaiters();

    private @Nullable UUID last;

    /** @param onReleased called if jobs may run */
    JobDependencyKeeper(
            Node node, JobDependencyStore dependencies, Runnable onReleased, Consumer<UUID> onBatchChanged) {
        this.dependencies = dependencies;
        this.onReleased = onReleased;
        this.onBatchChanged = onBatchChanged;
        this.followUps = new FollowUps("release-jobs", node, ids -> FollowUps.apart(ids, this::decide));
    }

    NodeLoop loop() {
        return followUps.loop();
    }

    /** Has jobs that wait for this one decided about, if there may be any. */
    void ended(UUID job) {
        if (waiters.possible()) {
            followUps.add(job);
        }
    }

    /** Has a job decided about that has begun to wait: the jobs that it waits for may have ended before. */
    void waiting(UUID job) {
        waiters.begun();
        followUps.add(job);
    }

    /** Some job of the cluster has begun to wait. */
    void begun() {
        waiters.begun();
    }

    /** Reads whether any job waits for others. */
    void refresh() {
        waiters.refresh(dependencies::exist);
    }

    /** Decides about the next jobs that wait. */
    void sweep() {
        List<UUID> next = dependencies.next(last, MOST_CHECKED);
        // Before the decision: if it fails, the next sweep must get to the other jobs nevertheless.
        last = next.size() < MOST_CHECKED ? null : next.get(next.size() - 1);
        if (!next.isEmpty()) {
            FollowUps.apart(next, this::decide);
            dependencies.forgetOthers(next);
        }
    }

    private void decide(List<UUID> ids) {
        boolean released = false;
        JobDependencyStore.Decision decision = dependencies.decide(ids);
        if (decision.more()) {
            dependencies.awaited(ids).forEach(followUps::add);
        }
        for (Decided decided : decision.jobs()) {
            released |= !decided.cancelled();
            UUID batch = decided.batch();
            if (decided.cancelled() && decided.awaited()) {
                ended(decided.id());
            }
            if (decided.cancelled() && batch != null) {
                onBatchChanged.accept(batch);
            }
        }
        if (released) {
            onReleased.run();
        }
    }
}

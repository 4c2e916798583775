// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.purge.PurgeBatch;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.LongSupplier;

/** Releases the locks of nodes that die or leave, and deletes the rows of locks that expired more than a day ago. */
public final class LockCleanUp implements NodeComponent {

    private static final Duration RETENTION = Duration.ofDays(1);
    private static final int LARGEST_BATCH = 5_000;

    private final LockStore locks;
    private final String kept;
    private final PurgeBatch purge;

    /**
     * Creates the component.
     *
     * @param locks on {@link dev.forge.cluster.internal.node.NodeStore#source()}
     * @param kept an SQL condition on locks {@code l} whose rows another capability still needs; empty if there are none
     */
    public LockCleanUp(LockStore locks, String kept, LongSupplier nanos) {
        this.locks = locks;
        this.kept = kept;
        this.purge = new PurgeBatch("expired locks", LARGEST_BATCH, nanos);
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(NodeLoop.cleanUp("clean-up-locks", this::cleanUp));
    }

    void cleanUp() {
        purge.deleteAll(limit -> locks.purge(RETENTION, kept, limit));
    }

    @Override
    public Runnable releaseHeldByDead(UUID dead) {
        locks.releaseHeldByDead(dead);
        return () -> {};
    }

    @Override
    public void forgetDead(List<UUID> nodes) {
        locks.forgetDead(nodes);
    }

    @Override
    public void releaseHeldByLeaving(UUID leaving) {
        locks.releaseHeldByLeaving(leaving);
    }
}

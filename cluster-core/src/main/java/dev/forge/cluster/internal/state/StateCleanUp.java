// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.state;

import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.purge.PurgeBatch;
import java.util.List;
import java.util.function.LongSupplier;

/** Deletes expired state. */
public final class StateCleanUp implements NodeComponent {

    private static final int LARGEST_BATCH = 5_000;

    private final StateStore states;
    private final PurgeBatch purge;

    public StateCleanUp(StateStore states, LongSupplier nanos) {
        this.states = states;
        this.purge = new PurgeBatch("expired states", LARGEST_BATCH, nanos);
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(NodeLoop.cleanUp("clean-up-state", this::cleanUp));
    }

    void cleanUp() {
        purge.deleteAll(states::purge);
    }
}

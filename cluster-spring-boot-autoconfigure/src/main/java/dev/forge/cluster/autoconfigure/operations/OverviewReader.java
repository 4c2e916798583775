// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.function.Supplier;

/** Reads the overview of the cluster. */
final class OverviewReader implements Supplier<ClusterDescriptor> {

    private final String clusterName;
    private final Node node;
    private final LeaderStore leaders;
    private final Counted counted;

    /** The resources whose entries are counted. */
    record Counted(NodesResource nodes, JobsResource jobs, DaemonsResource daemons) {}

    OverviewReader(String clusterName, Node node, LeaderStore leaders, Counted counted) {
        this.clusterName = clusterName;
        this.node = node;
        this.leaders = leaders;
        this.counted = counted;
    }

    @Override
    public ClusterDescriptor get() {
        return new ClusterDescriptor(
                clusterName,
                new ClusterDescriptor.ThisNode(
                        String.valueOf(node.id()),
                        node.identity().name(),
                        EnumText.hyphenated(node.state()),
                        node.elector().applicationRolesHeld()),
                leaders.leaders().stream()
                        .map(leader -> new ClusterDescriptor.Leader(
                                leader.role(), leader.node(), leader.term(), leader.acquiredAt()))
                        .toList(),
                counted.nodes.counts(),
                counted.jobs.counts(),
                counted.daemons.counts());
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

import java.util.List;
import java.util.Optional;
import java.util.UUID;

/** Lists the nodes of the cluster. */
public interface ClusterNodes {

    /** Returns the nodes that are not dead, at most 1,000, ordered by name. */
    List<NodeInfo> list();

    /** Returns a node by the id of its membership; dead nodes are found until their rows are purged. */
    Optional<NodeInfo> find(UUID id);

    /** Returns this node; empty before it has joined the cluster and after it has left. */
    Optional<NodeInfo> self();
}

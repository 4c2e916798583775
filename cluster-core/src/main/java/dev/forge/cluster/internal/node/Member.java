// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.node.NodeIdentity;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** This process as a member of the cluster, as components see it. */
public interface Member extends NodeTime {

    /** Returns the id of the present membership; null while the node is not a member. */
    @Nullable
    UUID id();

    NodeIdentity identity();

    /**
     * Returns the id under which this node may change the cluster.
     *
     * @throws ClusterNotReadyException if it is not a member
     * @throws MutationRefusedException if its mode or roles forbid changes
     */
    UUID requireMutable();

    /**
     * Checks that mode and roles of this node allow changes. Needs no membership: requests that run while the node leaves still
     * enqueue jobs.
     *
     * @throws MutationRefusedException if they forbid changes
     */
    void requireMayMutate();
}

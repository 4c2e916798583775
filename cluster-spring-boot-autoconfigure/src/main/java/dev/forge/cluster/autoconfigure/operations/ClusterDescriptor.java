// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * An overview of the cluster.
 *
 * @param cluster the name of the cluster
 * @param node the node that answers the request
 * @param leaders all leader roles except those of daemons, by role
 * @param nodes the number of nodes by status
 * @param jobs the number of unfinished jobs by status; at most 10,000 pending jobs of each name are counted
 * @param daemons the number of daemon instances by status
 */
public record ClusterDescriptor(
        String cluster,
        ThisNode node,
        List<Leader> leaders,
        Map<String, Long> nodes,
        Map<String, Long> jobs,
        Map<String, Long> daemons) {

    /**
     * The node that answers the request.
     *
     * @param id the id of its current membership
     * @param name its configured name
     * @param state running, draining or stopped
     * @param leads the roles it leads
     */
    public record ThisNode(String id, String name, String state, Set<String> leads) {}

    /**
     * A leader role.
     *
     * @param role the name of the role
     * @param node the node that leads; null while no node holds the lease
     * @param term the number of the current or last term
     * @param acquiredAt when that term began
     */
    public record Leader(
            String role,
            @Nullable UUID node,
            long term,
            @Nullable OffsetDateTime acquiredAt) {}
}

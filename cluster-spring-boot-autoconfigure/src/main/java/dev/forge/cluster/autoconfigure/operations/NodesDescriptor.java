// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * All nodes of the cluster, as the resource {@code nodes} returns them.
 *
 * @param nodes the nodes, the one that started first at the beginning
 */
public record NodesDescriptor(List<NodeDescriptor> nodes) {

    /**
     * A node.
     *
     * @param id the id of its current membership; each start and each rejoin gets a new one
     * @param key the stable key of the node, {@code forge.cluster.node.id}
     * @param name the configured name
     * @param hostname the host it runs on
     * @param mode auto, leader, worker or observer
     * @param roles its effective roles
     * @param capabilities the worker capabilities it offers
     * @param status joining, active, draining, stale or dead
     * @param version the version of Forge Cluster
     * @param startedAt when it joined
     * @param lastHeartbeat when it last renewed its row
     * @param connections the open connections of the application's pool; 0 if unknown
     * @param jobs the number of jobs it runs
     * @param slots the number of jobs that it can run at the same time; null if unknown
     * @param cpu the share of processor time it uses, between 0 and 1; null if unknown
     * @param memory the share of the heap it uses, between 0 and 1; null if unknown
     */
    public record NodeDescriptor(
            UUID id,
            String key,
            String name,
            String hostname,
            String mode,
            List<String> roles,
            List<String> capabilities,
            String status,
            String version,
            OffsetDateTime startedAt,
            OffsetDateTime lastHeartbeat,
            int connections,
            int jobs,
            @Nullable Integer slots,
            @Nullable Double cpu,
            @Nullable Double memory) {}

    /**
     * The response to a state change of a node.
     *
     * @param id the node
     * @param state the requested state
     */
    public record NodeStateDescriptor(String id, String state) {}
}

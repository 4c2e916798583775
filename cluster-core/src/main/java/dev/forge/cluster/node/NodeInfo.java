// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

import java.time.Duration;
import java.time.Instant;
import java.util.Set;
import java.util.UUID;

/**
 * A node as recorded in {@code forge_nodes}.
 *
 * @param id the id of this membership; a restarted node gets a new one
 * @param key the node's stable id, see {@link NodeIdentity#id()}
 * @param name the node's name, see {@link NodeIdentity#name()}
 * @param capabilities the capabilities that the node offers to jobs and daemons
 * @param version the version of Forge Cluster that the node runs
 * @param startedAt when the node joined, by the database's clock
 * @param heartbeatAge the time since the node's last heartbeat, by the database's clock
 * @param runningJobs the number of jobs that the node ran at its last heartbeat
 */
public record NodeInfo(
        UUID id,
        String key,
        String name,
        String hostname,
        NodeStatus status,
        Set<NodeRole> roles,
        Set<String> capabilities,
        String version,
        Instant startedAt,
        Duration heartbeatAge,
        int runningJobs) {}

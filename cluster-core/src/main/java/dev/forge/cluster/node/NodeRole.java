// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

/** What a node does for the cluster. A node can have any combination of roles. */
public enum NodeRole {
    /** Serves the application's HTTP requests. */
    GATEWAY,
    /** May enqueue work and change the cluster through this library's API. */
    FUNCTION,
    /** Claims jobs and runs daemons. */
    WORKER,
    /** Stands for election to the leader roles. */
    SCHEDULER
}

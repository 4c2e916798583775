// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

/** The status of a node as the cluster sees it. */
public enum NodeStatus {
    /** Registered, not yet working. */
    JOINING,
    /** Working. */
    ACTIVE,
    /** Missed its heartbeat deadline. */
    STALE,
    /** Finishes its running work and takes no new work. */
    DRAINING,
    /** Left or declared dead. Its jobs, locks and roles were released. */
    DEAD
}

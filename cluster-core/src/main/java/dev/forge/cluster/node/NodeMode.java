// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

/** How a node takes part in the cluster, in addition to its {@linkplain NodeRole roles}. */
public enum NodeMode {
    /** Does everything that its roles allow. */
    AUTO,
    /** Must lead: start-up fails if the node is not elected in time. */
    LEADER,
    /** Never stands for election. */
    WORKER,
    /** Registers and reads. Never claims, stands for election, fires crons or changes anything. */
    OBSERVER
}

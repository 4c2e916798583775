// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

/** What entitles a node to a leader role. */
public enum LeadershipBasis {
    /** Its session holds the advisory lock of the role: the previous leader has lost its session. */
    LOCK,
    /** It holds no lock; the lease of the previous leader must have ended. Works through a transaction pooler. */
    LEASE
}

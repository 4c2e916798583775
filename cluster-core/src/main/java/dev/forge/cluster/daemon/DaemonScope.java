// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

/** Where a daemon runs. */
public enum DaemonScope {
    /** {@link ClusterDaemon#instances} times in the whole cluster. */
    CLUSTER,
    /**
     * Once on every node that can run it. There is no election, so there is neither a term nor a fence, and the daemon keeps
     * running while the database is unreachable.
     */
    NODE
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

import java.util.List;
import java.util.Optional;

/**
 * Lists and controls the daemons of the cluster, wherever they run; see {@link ClusterDaemon}. All methods throw {@link
 * IllegalArgumentException} if a name contains a control character.
 */
public interface Daemons {

    /** Returns all daemons that a node of the cluster has or that are paused, ordered by name. */
    List<DaemonInfo> list();

    /** Returns a daemon by name. */
    Optional<DaemonInfo> find(String name);

    /**
     * Stops all instances of a daemon and keeps every node from running it until {@link #resume}. The pause survives restarts.
     *
     * @return whether the daemon was paused by this call; false if it is unknown or was already paused
     */
    boolean pause(String name);

    /**
     * Ends a pause, and lets instances that have finished or failed run again.
     *
     * @return whether this call changed anything; false if the daemon is unknown or runs
     */
    boolean resume(String name);
}

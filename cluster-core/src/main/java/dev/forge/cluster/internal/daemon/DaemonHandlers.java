// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.Names;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Registry of the daemons that this application declares. Complete before the node starts. */
public final class DaemonHandlers {

    /** Each instance is a leader role with a row and, on its node, a thread. */
    private static final int MAX_INSTANCES = 1_000;

    private final Map<String, DaemonHandler> byName = new TreeMap<>();

    /**
     * Adds a daemon.
     *
     * @throws ClusterStartupException if the name is invalid or taken, or the number of instances exceeds the limit
     */
    public void add(DaemonHandler handler) {
        try {
            Names.require("daemon name", handler.name());
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    "%s: %s".formatted(handler.target().description(), e.getMessage()),
                    "Give the daemon another name: @ClusterDaemon(name = ...).",
                    e);
        }
        if (handler.instances() > MAX_INSTANCES) {
            throw new ClusterStartupException(
                    "@ClusterDaemon on %s: daemon '%s': instances (%d): must be at most %d"
                            .formatted(
                                    handler.target().description(), handler.name(), handler.instances(), MAX_INSTANCES),
                    "Lower @ClusterDaemon(instances = ...). An instance can work on several units.");
        }
        DaemonHandler other = byName.putIfAbsent(handler.name(), handler);
        if (other != null) {
            throw new ClusterStartupException(
                    "Two methods declare the daemon '%s': %s and %s"
                            .formatted(
                                    handler.name(),
                                    other.target().description(),
                                    handler.target().description()),
                    "Give one of them another @ClusterDaemon(name = ...).");
        }
    }

    /** Returns all daemons, ordered by name. */
    public Collection<DaemonHandler> all() {
        return List.copyOf(byName.values());
    }
}

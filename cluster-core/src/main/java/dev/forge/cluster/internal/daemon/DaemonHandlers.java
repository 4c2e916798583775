package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.Names;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The daemons this node knows, by name. Filled before the node starts. */
public final class DaemonHandlers {

    private final Map<String, DaemonHandler> byName = new TreeMap<>();

    /**
     * Adds a daemon.
     *
     * @throws ClusterStartupException if another one has its name
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
        DaemonHandler other = byName.putIfAbsent(handler.name(), handler);
        if (other != null) {
            throw new ClusterStartupException(
                    "Two methods are the daemon '%s': %s and %s"
                            .formatted(
                                    handler.name(),
                                    other.target().description(),
                                    handler.target().description()),
                    "Give one of them another @ClusterDaemon(name = ...).");
        }
    }

    /** All of them, by name. */
    public Collection<DaemonHandler> all() {
        return List.copyOf(byName.values());
    }
}

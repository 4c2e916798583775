package dev.forge.cluster.daemon;

import java.util.List;
import java.util.Optional;

/** The cluster's daemons, wherever they run; see {@link ClusterDaemon}. */
public interface Daemons {

    /** All that a node of the cluster knows, or that are paused, by name. */
    List<DaemonInfo> list();

    /**
     * One of them.
     *
     * @throws IllegalArgumentException if the name cannot be one: it holds a control character. So do all methods here
     */
    Optional<DaemonInfo> find(String name);

    /**
     * Asks all of its instances to stop, and keeps every node from running it until {@link #resume}, restarts included.
     * Empty if there is no such daemon.
     */
    Optional<DaemonInfo> pause(String name);

    /** Ends a pause, and lets an instance that is done or has failed run again. Empty if there is no such daemon. */
    Optional<DaemonInfo> resume(String name);
}

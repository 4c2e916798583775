package dev.forge.cluster.daemon;

/** How many of a daemon there are. */
public enum DaemonScope {
    /** As many as its {@link ClusterDaemon#instances} in the whole cluster. */
    CLUSTER,
    /**
     * One on every node that may run it. Nobody is elected, hence there is no term and no fence, and it goes on when the
     * database is out of reach.
     */
    NODE
}

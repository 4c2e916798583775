package dev.forge.cluster.node;

/** What the cluster thinks of a node. */
public enum NodeStatus {
    /** Registered, not yet at work. */
    JOINING,
    /** At work. */
    ACTIVE,
    /** Silent for longer than it said it would be. */
    STALE,
    /** Finishes what it has and takes nothing new. */
    DRAINING,
    /** Gone; what it held was given to others. */
    DEAD
}

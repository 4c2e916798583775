package dev.forge.cluster.node;

/** How a node takes part, on top of its {@linkplain NodeRole roles}. */
public enum NodeMode {
    /** Does what its roles allow. */
    AUTO,
    /** Must lead: start-up fails when it is not elected in time. */
    LEADER,
    /** Never stands for election. */
    WORKER,
    /** Registers and reads; never claims, competes, fires or changes anything. */
    OBSERVER
}

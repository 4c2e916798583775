package dev.forge.cluster.internal.engine;

import java.time.Duration;

/** Something of this node that must come to an end before the node leaves: jobs, daemons. */
interface Work {

    /** Takes nothing new from now on. */
    void quiesce();

    /** Waits for what is under way; false if some of it still is after that time. */
    boolean awaitIdle(Duration patience) throws InterruptedException;

    /** Interrupts what is left and gives it back. */
    void release();
}

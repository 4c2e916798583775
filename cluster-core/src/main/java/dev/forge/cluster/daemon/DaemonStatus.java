package dev.forge.cluster.daemon;

/** Where an instance of a daemon stands. */
public enum DaemonStatus {
    /** Nobody runs it: no node may, it is paused, or the next one has not begun. */
    PENDING,
    /** A node has it, and waits until its predecessor cannot run it any more. */
    ACQUIRING,
    /** Its method runs. */
    RUNNING,
    /** Its method was asked to end and has not yet. */
    STOPPING,
    /** Its method has returned: done, until a node that has it starts or an operator resumes it. */
    STOPPED,
    /** Its method threw more often than allowed; likewise. */
    FAILED,
    /** Its method threw, and will be started again. */
    RESTARTING
}

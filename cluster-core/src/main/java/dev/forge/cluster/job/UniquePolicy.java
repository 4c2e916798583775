package dev.forge.cluster.job;

/** What becomes of a new job whose unique key belongs to an active one. */
public enum UniquePolicy {
    /** The active job stays as it is; its id is the answer. */
    KEEP,
    /**
     * The new one takes the place of one that has not started yet. If the active one runs already, the new one waits
     * for its end: the two never run beside each other. (Cancelling a running job ends it at once, before its handler has
     * heard of it.)
     */
    REPLACE
}

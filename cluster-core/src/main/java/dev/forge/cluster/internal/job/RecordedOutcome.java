package dev.forge.cluster.internal.job;

/** What a handler of our own answers that has written by itself how its claim ended. */
public enum RecordedOutcome {
    /** The job is done. */
    COMPLETED,
    /** The job has failed for good. */
    FAILED,
    /** The job is pending again, now or later. */
    PENDING,
    /** Nothing could be written: the job is not this node's any more. */
    LOST
}

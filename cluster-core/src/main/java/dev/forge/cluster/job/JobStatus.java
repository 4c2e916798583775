package dev.forge.cluster.job;

/** Where a job stands. */
public enum JobStatus {
    /** Waits: for its time, for its predecessor, or for a worker. */
    PENDING,
    /** A node has it and will start it. */
    CLAIMED,
    /** Its handler runs. */
    RUNNING,
    /** Done. */
    COMPLETED,
    /** Tried as often as allowed, or failed for good. */
    FAILED,
    /** Called off. */
    CANCELLED,
    /** Its nodes died under it more often than allowed. */
    ABANDONED;

    /** Whether nothing will happen to it any more, unless somebody retries it. */
    public boolean isFinal() {
        return switch (this) {
            case PENDING, CLAIMED, RUNNING -> false;
            case COMPLETED, FAILED, CANCELLED, ABANDONED -> true;
        };
    }
}

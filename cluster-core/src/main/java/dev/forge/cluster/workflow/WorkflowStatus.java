package dev.forge.cluster.workflow;

/** Where a run of a workflow is. */
public enum WorkflowStatus {
    /** Its method runs, or will in a moment. */
    RUNNING,
    /** It waits for a time, a signal, a job or a child; nothing of it is in memory anywhere. */
    WAITING,
    /** What it has done is being undone. */
    COMPENSATING,
    /** Its method has returned. */
    COMPLETED,
    /** It failed or was cancelled, and what it had done is undone. */
    COMPENSATED,
    /** It failed, and there was nothing to undo, or undoing failed too, or its job was ended without it: nothing is undone then. */
    FAILED,
    /** No live node has its version. */
    BLOCKED_MISSING_VERSION,
    /** Its method does not do what is remembered of it. */
    BLOCKED_SIGNATURE_MISMATCH,
    /** An operator has given it up. */
    RETIRED_UNRESUMABLE,
    /** An operator has ended it, without undoing anything. */
    CANCELLED_BY_OPERATOR;

    /** Whether it will never go on by itself. */
    public boolean isFinal() {
        return switch (this) {
            case COMPLETED, COMPENSATED, FAILED, RETIRED_UNRESUMABLE, CANCELLED_BY_OPERATOR -> true;
            case RUNNING, WAITING, COMPENSATING, BLOCKED_MISSING_VERSION, BLOCKED_SIGNATURE_MISMATCH -> false;
        };
    }
}

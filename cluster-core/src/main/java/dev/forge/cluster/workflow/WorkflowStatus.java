// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

/** The status of a run of a workflow. */
public enum WorkflowStatus {
    /** The method runs or is about to run. */
    RUNNING,
    /** The run waits for a time, a signal, a job or a child, and occupies no memory on any node. */
    WAITING,
    /** Completed steps are being compensated. */
    COMPENSATING,
    /** The method has returned. */
    COMPLETED,
    /** The run failed or was cancelled, and its steps are compensated. */
    COMPENSATED,
    /** The run failed without steps to compensate, a compensation failed, or its job was ended from outside, which compensates nothing. */
    FAILED,
    /** No live node has the version of the run. */
    BLOCKED_MISSING_VERSION,
    /** The method does not match the recorded history. */
    BLOCKED_SIGNATURE_MISMATCH,
    /** An operator has given the run up. */
    RETIRED_UNRESUMABLE,
    /** An operator has ended the run without compensation. */
    CANCELLED_BY_OPERATOR;

    /** Returns whether the run has ended. */
    public boolean isFinal() {
        return switch (this) {
            case COMPLETED, COMPENSATED, FAILED, RETIRED_UNRESUMABLE, CANCELLED_BY_OPERATOR -> true;
            case RUNNING, WAITING, COMPENSATING, BLOCKED_MISSING_VERSION, BLOCKED_SIGNATURE_MISMATCH -> false;
        };
    }
}

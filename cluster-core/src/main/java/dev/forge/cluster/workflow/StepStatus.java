// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

/** The status of a step in the history of a run. */
public enum StepStatus {
    /** The run waits for what the step awaits. */
    WAITING,
    /** The step has begun, or has failed and will be tried again. */
    RETRYING,
    /** The step succeeded. */
    COMPLETED,
    /** The step failed for good. */
    FAILED,
    /** The awaited signal was not sent in time. */
    TIMED_OUT,
    /** The step was completed, and its compensation succeeded. */
    COMPENSATED,
    /** The step was completed, and its compensation failed for good. */
    COMPENSATION_FAILED
}

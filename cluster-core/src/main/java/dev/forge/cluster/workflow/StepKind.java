// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

/** What a step in the history of a run records. */
public enum StepKind {
    /** Code that ran: {@link WorkflowContext#step} or {@link WorkflowContext#transactionalStep}. */
    STEP,
    /** A wait for a time. */
    SLEEP,
    /** A wait for a signal. */
    SIGNAL,
    /** A job that was enqueued and awaited. */
    JOB,
    /** A batch of jobs that was awaited. */
    BATCH,
    /** A run of another workflow that was started and awaited. */
    CHILD,
    /** The time that {@link WorkflowContext#now} returned. */
    NOW,
    /** The value that {@link WorkflowContext#randomUuid} returned. */
    UUID,
    /** A value that {@link WorkflowContext#saveState} stored. */
    STATE
}

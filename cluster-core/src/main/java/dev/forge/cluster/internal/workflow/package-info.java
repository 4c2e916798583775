/**
 * Workflows: recording and replaying steps, waiting, compensation, children and signals.
 *
 * <p>One job carries a run for its whole life; the job has the id of the run.
 *
 * <p><b>Guards.</b> Every write of an execution proves, in the same transaction, that its node still holds the claim of the
 * run's job. An operator who ends a run thereby ends its job (a trigger does), so that one proof covers both.
 *
 * <p><b>Waking.</b> A waiting run is a pending job that is scheduled for later, or that waits for another job. A signal
 * increments {@code wake_seq} and reschedules the job for now; an execution that suspends its run compares {@code wake_seq} with
 * the value that it has read, under the lock of the row. Whichever of the two commits first, the run sees the signal.
 *
 * <p><b>Locks</b> are taken in one order: the run, then its job. The trigger that fails a run whose job has ended takes them in
 * the other order. It therefore never waits, and skips a run that is locked. The execution that finds its claim lost then fails
 * the run, and so does the leader's check ({@link dev.forge.cluster.internal.workflow.store.WorkflowKeeping#repairNext}).
 */
@NullMarked
package dev.forge.cluster.internal.workflow;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.workflow.store.StepRow;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Ends the method of a workflow where it cannot continue now. An error, so that no {@code catch (Exception e)} takes it for a
 * failure. If a method swallows it nevertheless, every further call on its context throws it again.
 */
final class WorkflowSuspension extends Error {

    private static final long serialVersionUID = 1L;

    private final transient Reason reason;

    WorkflowSuspension(Reason reason) {
        super("The workflow is suspended here. Do not catch this error; let it propagate.", null, false, false);
        this.reason = reason;
    }

    Reason reason() {
        return reason;
    }

    /** Why the method cannot continue now. */
    sealed interface Reason {}

    /**
     * The run waits.
     *
     * @param rows to be recorded
     * @param until when the run continues by itself; null: it does not
     * @param signal the name of the awaited signal
     * @param job the awaited job, or the job of the awaited child
     * @param inTransaction runs in the transaction that suspends the run
     */
    record Waiting(
            List<StepRow> rows,
            @Nullable Instant until,
            @Nullable String signal,
            @Nullable UUID job,
            Runnable inTransaction)
            implements Reason {

        Waiting(List<StepRow> rows, @Nullable Instant until, @Nullable String signal, @Nullable UUID job) {
            this(rows, until, signal, job, () -> {});
        }

        static Waiting until(@Nullable Instant time, List<StepRow> rows) {
            return new Waiting(rows, time, null, null);
        }

        static Waiting forJob(UUID job) {
            return new Waiting(List.of(), null, null, job);
        }
    }

    /** The method does not match the recorded history. */
    record HistoryMismatch(String message) implements Reason {}

    /** The database has failed. Whether the last write was committed is seen when the method runs again. */
    record DatabaseFailed(Throwable cause) implements Reason {}

    /** The reasons without data. */
    enum Interruption implements Reason {
        /** The run compensates, and the method has reached the end of the recorded history. */
        HISTORY_EXHAUSTED,
        /** The run was cancelled. */
        CANCELLED,
        /** Another outcome of a step was recorded meanwhile; the next execution reads it. */
        SUPERSEDED,
        /** The node leaves. */
        NODE_STOPPING,
        /** The node does not hold the claim of the run's job any more. */
        CLAIM_LOST
    }
}

package dev.forge.cluster.internal.workflow;

import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Ends the method of a workflow in the middle. An error, so that no {@code catch (Exception e)} takes it for a failure; where
 * a method swallows it nevertheless, every further call throws it again.
 */
final class WorkflowSuspension extends Error {

    private static final long serialVersionUID = 1L;

    private final transient Why why;

    WorkflowSuspension(Why why) {
        super("the workflow pauses here: do not catch this", null, false, false);
        this.why = why;
    }

    Why why() {
        return why;
    }

    /** Why it cannot go on now. */
    sealed interface Why {}

    /**
     * It has to wait.
     *
     * @param rows what is remembered of that
     * @param until a time, if it goes on by itself
     * @param signal its name, if it waits for one
     * @param job its id, if it waits for one, or for a child
     * @param before what belongs into the same transaction
     */
    record Waits(
            List<StepRow> rows,
            @Nullable Instant until,
            @Nullable String signal,
            @Nullable UUID job,
            Runnable before) implements Why {

        /** Nothing else belongs into the transaction. */
        Waits(List<StepRow> rows, @Nullable Instant until, @Nullable String signal, @Nullable UUID job) {
            this(rows, until, signal, job, () -> {});
        }

        /** Only for a time to come. */
        static Waits until(@Nullable Instant time, List<StepRow> rows) {
            return new Waits(rows, time, null, null);
        }
    }

    /** Its method does not do what is remembered of it. */
    record Mismatch(String message) implements Why {}

    /** The database did not answer; what happened is seen when the method runs again. */
    record Unwritten(Throwable cause) implements Why {}

    /** The others. */
    enum Plain implements Why {
        /** It undoes what it has done, and there is no more of that. */
        MEMORY_ENDS,
        /** Somebody has called it off. */
        CALLED_OFF,
        /** What became of a step was recorded otherwise meanwhile; the next execution reads it. */
        SUPERSEDED,
        /** The node leaves. */
        STOPPED,
        /** The run is not this node's any more. */
        LOST
    }
}

package dev.forge.cluster.internal.workflow;

import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A row of {@code forge_workflow_steps}: what is remembered of a step, or of whatever else the method has asked for. It is
 * never changed, only followed by another.
 *
 * @param status see the table's constraint
 * @param result JSON
 * @param ranMillis how long ago it began; null if it did not run
 * @param beside the first of the steps that ran side by side with it; null: it ran alone
 */
public record StepRow(
        int position,
        String name,
        String kind,
        String status,
        int attempts,
        @Nullable String result,
        @Nullable String error,
        @Nullable Instant wakeAt,
        @Nullable UUID ref,
        int compensationAttempts,
        @Nullable Long ranMillis,
        @Nullable Integer beside) {

    /** Something that has not been met before. */
    public static StepRow of(int position, String name, String kind, String status) {
        return new StepRow(position, name, kind, status, 0, null, null, null, null, 0, null, null);
    }

    public StepRow with(String changed, @Nullable String value) {
        return new StepRow(
                position,
                name,
                kind,
                changed,
                attempts,
                value,
                error,
                wakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                beside);
    }

    public StepRow until(@Nullable Instant time) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                attempts,
                result,
                error,
                time,
                ref,
                compensationAttempts,
                ranMillis,
                beside);
    }

    public StepRow failed(String changed, int times, @Nullable String failure) {
        return new StepRow(
                position,
                name,
                kind,
                changed,
                times,
                result,
                failure,
                wakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                beside);
    }

    public StepRow ran(int times, long millis) {
        return new StepRow(
                position, name, kind, status, times, result, error, wakeAt, ref, compensationAttempts, millis, beside);
    }

    public StepRow sideBySide(int first) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                attempts,
                result,
                error,
                wakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                first);
    }

    public StepRow waitingFor(UUID other) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                attempts,
                result,
                error,
                wakeAt,
                other,
                compensationAttempts,
                ranMillis,
                beside);
    }

    public StepRow compensating(String changed, int times, @Nullable String failure, @Nullable Instant again) {
        return new StepRow(
                position, name, kind, changed, attempts, result, failure, again, ref, times, ranMillis, beside);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A row of {@code forge_workflow_steps}: the record of a step, or of another call that the method made on its context. Immutable.
 *
 * @param status see the constraint of the table
 * @param result JSON
 * @param wakeAt when a wait ends, or when the next attempt begins
 * @param ref the awaited job or child
 * @param ranMillis how long ago the attempt began; null if none ran
 * @param parallelGroup the position of the first of the steps that run in parallel with it; null if it runs alone
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
        @Nullable Integer parallelGroup) {

    /** Creates a row of a call that is not recorded yet. */
    public static StepRow of(int position, String name, String kind, String status) {
        return new StepRow(position, name, kind, status, 0, null, null, null, null, 0, null, null);
    }

    public StepRow withResult(String newStatus, @Nullable String newResult) {
        return new StepRow(
                position,
                name,
                kind,
                newStatus,
                attempts,
                newResult,
                error,
                wakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                parallelGroup);
    }

    public StepRow withWakeAt(@Nullable Instant newWakeAt) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                attempts,
                result,
                error,
                newWakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                parallelGroup);
    }

    public StepRow withError(String newStatus, int newAttempts, @Nullable String newError) {
        return new StepRow(
                position,
                name,
                kind,
                newStatus,
                newAttempts,
                result,
                newError,
                wakeAt,
                ref,
                compensationAttempts,
                ranMillis,
                parallelGroup);
    }

    public StepRow withRanMillis(int newAttempts, long newRanMillis) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                newAttempts,
                result,
                error,
                wakeAt,
                ref,
                compensationAttempts,
                newRanMillis,
                parallelGroup);
    }

    public StepRow withParallelGroup(int firstPosition) {
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
                firstPosition);
    }

    public StepRow withRef(UUID newRef) {
        return new StepRow(
                position,
                name,
                kind,
                status,
                attempts,
                result,
                error,
                wakeAt,
                newRef,
                compensationAttempts,
                ranMillis,
                parallelGroup);
    }

    public StepRow withCompensation(
            String newStatus, int newAttempts, @Nullable String newError, @Nullable Instant newWakeAt) {
        return new StepRow(
                position,
                name,
                kind,
                newStatus,
                attempts,
                result,
                newError,
                newWakeAt,
                ref,
                newAttempts,
                ranMillis,
                parallelGroup);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A run of a workflow as recorded in the database.
 *
 * @param key the key that makes the start idempotent
 * @param parent the run that started this one
 * @param input JSON
 * @param result JSON
 * @param resolutionReason why the run was cancelled or ended by an operator
 * @param awaits the signal that the run waits for; null if it waits for none, or that signal has been sent
 * @param wakeAt when the run continues by itself; null if it does not wait for a time
 * @param progress JSON with percent and message, as long as the job is kept; null in lists
 * @param steps the recorded steps in order; empty in lists
 * @param signals the signals that were sent and that the run has not consumed, the oldest first, at most 100; empty in lists
 */
public record WorkflowInfo(
        UUID id,
        String name,
        String version,
        WorkflowStatus status,
        @Nullable String key,
        @Nullable UUID parent,
        @Nullable String input,
        @Nullable String result,
        @Nullable String lastError,
        @Nullable String resolutionReason,
        @Nullable String awaits,
        @Nullable Instant wakeAt,
        @Nullable String progress,
        Instant createdAt,
        @Nullable Instant finishedAt,
        List<Step> steps,
        List<Signal> signals) {

    /** A signal that was sent to a run. */
    public record Signal(String name, Instant sentAt) {}

    /**
     * A recorded step of a run.
     *
     * @param compensationAttempts the number of attempts to compensate the step
     * @param result JSON
     * @param finishedAt when the step completed, not when it was compensated
     * @param compensationStartedAt when its compensation began
     * @param compensatedAt when its compensation succeeded, or failed for good
     * @param attemptHistory the last 20 attempts that failed, the oldest first
     */
    public record Step(
            int position,
            String name,
            StepKind kind,
            StepStatus status,
            int attempts,
            int compensationAttempts,
            @Nullable String result,
            @Nullable String lastError,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            @Nullable Instant compensationStartedAt,
            @Nullable Instant compensatedAt,
            List<Attempt> attemptHistory) {}

    /**
     * A failed attempt of a step.
     *
     * @param attempt the number of the attempt, from 1
     * @param compensation whether it was an attempt to compensate the step
     * @param endedAt by the database's clock
     * @param duration how long it ran; null for a compensation
     * @param error the first 2,000 characters of the error
     */
    public record Attempt(
            int attempt,
            boolean compensation,
            Instant endedAt,
            @Nullable Duration duration,
            String error) {}
}

package dev.forge.cluster.workflow;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A run of a workflow as it stands.
 *
 * @param key what makes its start idempotent
 * @param parent the run that has started it
 * @param input JSON
 * @param result JSON
 * @param resolutionReason why somebody has ended it
 * @param awaits the signal it waits for
 * @param wakeAt when it goes on by itself; null if it does not, or is not waiting
 * @param progress JSON with percent and message, for as long as its job is kept; null in lists
 * @param steps what is remembered of it, in order; empty in lists
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
        List<Step> steps) {

    /**
     * Something that is remembered of a run.
     *
     * @param kind step, sleep, signal, job, child, now, uuid or state
     * @param status waiting, retrying, completed, failed, timed_out, compensated or compensation_failed
     * @param compensationAttempts how often it was tried to undo it
     * @param result JSON
     * @param finishedAt when it was done; not when it was undone
     * @param attemptHistory the last 20 attempts that failed, the oldest first
     */
    public record Step(
            int position,
            String name,
            String kind,
            String status,
            int attempts,
            int compensationAttempts,
            @Nullable String result,
            @Nullable String lastError,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            List<Attempt> attemptHistory) {}

    /**
     * An attempt of a step that failed.
     *
     * @param attempt which attempt it was, from 1
     * @param compensation whether it was an attempt to compensate the step
     * @param endedAt by the database's clock
     * @param duration how long it ran; null for a compensation
     * @param error the first 2,000 characters of what went wrong
     */
    public record Attempt(
            int attempt,
            boolean compensation,
            Instant endedAt,
            @Nullable Duration duration,
            String error) {}
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A list of workflow runs, as the resource {@code workflows} returns it.
 *
 * @param runs the runs, the newest first
 * @param examined how many runs the search looked at
 * @param cutOff whether the search ended at its bound, before it had found as many runs as asked for or looked at all of them
 * @param next the value of the parameter {@code after} for the next page; absent if there are no further runs
 */
@JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
public record WorkflowsDescriptor(
        List<RunSummaryDescriptor> runs,
        long examined,
        boolean cutOff,
        @Nullable UUID next) {

    /**
     * A run without the values it carries.
     *
     * @param id the run
     * @param name the workflow
     * @param version the version of the workflow
     * @param status its status, as in the table, such as waiting or completed
     * @param parent the run that started it
     * @param wakeAt when it resumes by itself
     * @param createdAt when it was started
     * @param finishedAt when it reached a final status
     * @param awaits the signal it waits for, sanitized; {@code wakeAt} is then the deadline of the wait
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record RunSummaryDescriptor(
            UUID id,
            String name,
            String version,
            String status,
            @Nullable UUID parent,
            @Nullable Instant wakeAt,
            Instant createdAt,
            @Nullable Instant finishedAt,
            @Nullable Object awaits) {}

    /**
     * A run with its history, as the resource {@code workflows/{id}} returns it.
     *
     * @param id the run
     * @param name the workflow
     * @param version the version of the workflow
     * @param status its status, as in the table, such as waiting or completed
     * @param parent the run that started it
     * @param wakeAt when it resumes by itself
     * @param createdAt when it was started
     * @param finishedAt when it reached a final status
     * @param awaits the signal it waits for, sanitized; {@code wakeAt} is then the deadline of the wait
     * @param signals the signals that were sent and that it has not consumed, the oldest first; absent if there are none
     * @param resolutionReason why it was cancelled or resolved, sanitized
     * @param progress the reported progress, sanitized
     * @param key the idempotency key of its start, sanitized
     * @param input the input, sanitized
     * @param result the result, sanitized
     * @param error the error it failed with, sanitized
     * @param steps its history in order
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record RunDescriptor(
            UUID id,
            String name,
            String version,
            String status,
            @Nullable UUID parent,
            @Nullable Instant wakeAt,
            Instant createdAt,
            @Nullable Instant finishedAt,
            @Nullable Object awaits,
            @Nullable List<SignalDescriptor> signals,
            @Nullable Object resolutionReason,
            @Nullable Object progress,
            @Nullable Object key,
            @Nullable Object input,
            @Nullable Object result,
            @Nullable Object error,
            List<StepDescriptor> steps) {}

    /**
     * A signal that was sent to a run and not consumed.
     *
     * @param name its name, sanitized like that of the awaited one
     * @param sentAt when it was sent
     */
    public record SignalDescriptor(@Nullable Object name, Instant sentAt) {}

    /**
     * An entry in the history of a run.
     *
     * @param position its position in the history, from 0
     * @param name the name of the step, signal, job or child run
     * @param kind step, sleep, signal, job, child, now, uuid or state
     * @param status waiting, retrying, completed, failed, timed_out, compensated or compensation_failed
     * @param attempts the number of attempts
     * @param compensationAttempts the number of attempts to compensate it; absent if there were none
     * @param startedAt when it began
     * @param finishedAt when it completed or failed
     * @param compensationStartedAt when its compensation began; absent if it did not
     * @param compensatedAt when its compensation succeeded or failed for good; absent if it did not
     * @param deliveredAt when the signal was sent that it waits for, and that the run has not consumed; otherwise absent
     * @param result the recorded result, sanitized
     * @param error the error of the last attempt, sanitized
     * @param attemptHistory the attempts that failed, the oldest first; absent if there are none
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record StepDescriptor(
            int position,
            String name,
            String kind,
            String status,
            int attempts,
            @Nullable Integer compensationAttempts,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            @Nullable Instant compensationStartedAt,
            @Nullable Instant compensatedAt,
            @Nullable Instant deliveredAt,
            @Nullable Object result,
            @Nullable Object error,
            @Nullable List<AttemptDescriptor> attemptHistory) {}

    /**
     * An attempt of a step that failed.
     *
     * @param attempt the number of the attempt, from 1
     * @param compensation true for an attempt to compensate the step; otherwise absent
     * @param endedAt when it ended
     * @param durationMillis how long it ran; absent if unknown
     * @param error the error, sanitized
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record AttemptDescriptor(
            int attempt,
            @Nullable Boolean compensation,
            Instant endedAt,
            @Nullable Long durationMillis,
            @Nullable Object error) {}

    /**
     * The recorded history of a run, as the resource {@code workflows/{id}/history} returns it.
     *
     * @param id the run
     * @param name the workflow
     * @param version the version of the workflow
     * @param status its status, as in the table, such as waiting or completed
     * @param input the input, masked or full: {@link StoredJson} unless a sanitizing function changed it
     * @param steps its history in order
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record RunHistoryDescriptor(
            UUID id,
            String name,
            String version,
            String status,
            @Nullable Object input,
            List<RecordedStepDescriptor> steps) {}

    /**
     * An entry in the recorded history of a run.
     *
     * @param position its position in the history, from 0
     * @param name the name of the step, signal, job or child run
     * @param kind step, sleep, signal, job, batch, child, now, uuid or state
     * @param status waiting, retrying, completed, failed, timed_out, compensated or compensation_failed
     * @param attempts the number of attempts
     * @param result the recorded result, masked or full: {@link StoredJson} unless a sanitizing function changed it
     * @param lastError the error of the last attempt, masked or sanitized
     * @param wakeAt when it ends by itself or is retried
     * @param ref the job, batch or child run that it waits for
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record RecordedStepDescriptor(
            int position,
            String name,
            String kind,
            String status,
            int attempts,
            @Nullable Object result,
            @Nullable Object lastError,
            @Nullable Instant wakeAt,
            @Nullable UUID ref) {}

    /**
     * The response to a state change of a run.
     *
     * @param id the run
     * @param status its status after the change
     */
    public record RunStatusDescriptor(UUID id, String status) {}
}

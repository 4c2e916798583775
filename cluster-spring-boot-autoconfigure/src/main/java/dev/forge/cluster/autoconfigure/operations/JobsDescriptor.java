// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.forge.cluster.job.JobExplanation;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A list of jobs, as the resource {@code jobs} returns it.
 *
 * @param paused the job names that are paused
 * @param jobs the jobs, in the order of the index that the search follows; without a filter the newest first
 * @param examined how many jobs the search looked at
 * @param cutOff whether the search ended at its bound, before it had found as many jobs as asked for or looked at all of them
 * @param next the value of the parameter {@code after} for the next page; absent if there are no further jobs
 */
@JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
public record JobsDescriptor(
        Set<String> paused,
        List<JobSummaryDescriptor> jobs,
        long examined,
        boolean cutOff,
        @Nullable String next) {

    /**
     * A job without large values.
     *
     * @param id the job
     * @param name the name of its handler
     * @param status pending, claimed, running, completed, failed, cancelled or abandoned
     * @param priority its priority; jobs with a higher number run first
     * @param capability the capability a worker needs to run it; absent if any worker may
     * @param createdAt when it was enqueued
     * @param scheduledAt when it is, or was, due; absent while it waits for something that has no time, such as a signal
     * @param startedAt when its last attempt began; absent if it was cancelled after the end of that attempt
     * @param finishedAt when it reached a final status
     * @param attempts the number of attempts begun
     * @param maxAttempts the number of attempts allowed; absent until a node has claimed it
     * @param recoveries how often it was taken back from a failed node
     * @param epoch how often it was claimed
     * @param node the node that claimed it last
     * @param nodeName the name of that node; absent if the node is gone
     * @param group its group, sanitized
     * @param tags its tags; absent if there are none
     * @param batch the batch that it belongs to
     * @param waitsFor jobs that must end before it may run, at most ten; absent if there are none
     * @param waitsForBatch the batch that must end before it may run
     * @param awaitedBy jobs that wait for its end, at most ten; absent if there are none
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record JobSummaryDescriptor(
            UUID id,
            String name,
            String status,
            int priority,
            @Nullable String capability,
            Instant createdAt,
            @Nullable Instant scheduledAt,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            int attempts,
            @Nullable Integer maxAttempts,
            int recoveries,
            long epoch,
            @Nullable UUID node,
            @Nullable String nodeName,
            @Nullable Object group,
            @Nullable List<String> tags,
            @Nullable UUID batch,
            @Nullable List<UUID> waitsFor,
            @Nullable UUID waitsForBatch,
            @Nullable List<UUID> awaitedBy) {}

    /**
     * A job with the values it carries, sanitized, as the resource {@code jobs/{id}} returns it.
     *
     * @param id the job
     * @param name the name of its handler
     * @param status pending, claimed, running, completed, failed, cancelled or abandoned
     * @param priority its priority; jobs with a higher number run first
     * @param capability the capability a worker needs to run it; absent if any worker may
     * @param createdAt when it was enqueued
     * @param scheduledAt when it is, or was, due; absent while it waits for something that has no time, such as a signal
     * @param startedAt when its last attempt began; absent if it was cancelled after the end of that attempt
     * @param finishedAt when it reached a final status
     * @param attempts the number of attempts begun
     * @param maxAttempts the number of attempts allowed; absent until a node has claimed it
     * @param recoveries how often it was taken back from a failed node
     * @param epoch how often it was claimed
     * @param node the node that claimed it last
     * @param nodeName the name of that node; absent if the node is gone
     * @param metadata its metadata, sanitized
     * @param uniqueKey its unique key, sanitized
     * @param group its group, sanitized
     * @param tags its tags; absent if there are none
     * @param batch the batch that it belongs to
     * @param waitsFor jobs that must end before it may run, at most ten; absent if there are none
     * @param waitsForBatch the batch that must end before it may run
     * @param awaitedBy jobs that wait for its end, at most ten; absent if there are none
     * @param progress the reported progress, sanitized
     * @param payload the payload, sanitized
     * @param payloadText the payload as it is stored, with all digits of its numbers; absent if a part of it is hidden
     * @param result the result, sanitized
     * @param error the error of the last attempt, sanitized
     * @param attemptHistory the attempts that did not succeed, the oldest first; absent if there are none
     * @param explanation why the job is not running
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record JobDescriptor(
            UUID id,
            String name,
            String status,
            int priority,
            @Nullable String capability,
            Instant createdAt,
            @Nullable Instant scheduledAt,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            int attempts,
            @Nullable Integer maxAttempts,
            int recoveries,
            long epoch,
            @Nullable UUID node,
            @Nullable String nodeName,
            @Nullable Object metadata,
            @Nullable Object uniqueKey,
            @Nullable Object group,
            @Nullable List<String> tags,
            @Nullable UUID batch,
            @Nullable List<UUID> waitsFor,
            @Nullable UUID waitsForBatch,
            @Nullable List<UUID> awaitedBy,
            @Nullable Object progress,
            @Nullable Object payload,
            @Nullable String payloadText,
            @Nullable Object result,
            @Nullable Object error,
            @Nullable List<AttemptDescriptor> attemptHistory,
            ExplanationDescriptor explanation) {}

    /**
     * An attempt that did not succeed.
     *
     * @param attempt the number of the attempt, from 1
     * @param epoch the claim under which it ran
     * @param node the node that ran it; absent if unknown
     * @param nodeName the name of that node; absent if the node is gone
     * @param startedAt when it began
     * @param durationMillis how long it ran; absent if unknown
     * @param result failed, timed-out or node-lost
     * @param error the error, sanitized
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record AttemptDescriptor(
            int attempt,
            long epoch,
            @Nullable UUID node,
            @Nullable String nodeName,
            Instant startedAt,
            @Nullable Long durationMillis,
            String result,
            @Nullable Object error) {}

    /**
     * The lines that a handler has logged, as the resource {@code jobs/{id}/logs} returns them.
     *
     * @param id the job
     * @param lines the last 500 lines, the oldest first
     */
    public record JobLogsDescriptor(UUID id, List<LogLineDescriptor> lines) {}

    /**
     * A line that a handler has logged.
     *
     * @param time when it was logged
     * @param attempt the attempt in which it was logged, from 1
     * @param epoch the claim under which that attempt ran
     * @param message the text, sanitized
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record LogLineDescriptor(
            Instant time, int attempt, long epoch, @Nullable Object message) {}

    /**
     * Why a job is not running.
     *
     * @param reason the first reason that applies
     * @param text the reason as a sentence
     */
    public record ExplanationDescriptor(JobExplanation.Reason reason, String text) {}

    /**
     * The response to a change of all jobs that match a query.
     *
     * @param examined how many jobs the search looked at
     * @param matched how many of them match, in a status in which the change is possible
     * @param changed how many of these were changed; zero in a preview
     * @param rejected how many of these the database refused to change
     * @param preview whether jobs were only counted
     * @param next the value of the parameter {@code after} with which the next call continues; absent if there are no further jobs
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record BulkDescriptor(
            long examined,
            long matched,
            long changed,
            long rejected,
            boolean preview,
            @Nullable String next) {}

    /**
     * The response to a state change of one job.
     *
     * @param id the job
     * @param status its status after the change
     */
    public record JobStatusDescriptor(UUID id, String status) {}

    /**
     * The response to a state change of all jobs of a name.
     *
     * @param name the job name
     * @param state paused or running
     */
    public record JobNameStateDescriptor(String name, String state) {}
}

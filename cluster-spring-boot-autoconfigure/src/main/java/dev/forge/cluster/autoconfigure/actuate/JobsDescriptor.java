// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.forge.cluster.job.JobExplanation;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A list of jobs, as {@code /actuator/forgecluster/jobs} returns it.
 *
 * @param paused the job names that are paused
 * @param jobs the jobs, the newest first
 */
public record JobsDescriptor(Set<String> paused, List<JobSummaryDescriptor> jobs) {

    /**
     * A job without the values it carries.
     *
     * @param id the job
     * @param name the name of its handler
     * @param status pending, claimed, running, completed, failed, cancelled or abandoned
     * @param priority its priority; jobs with a higher number run first
     * @param capability the capability a worker needs to run it; absent if any worker may
     * @param createdAt when it was enqueued
     * @param scheduledAt when it is, or was, due
     * @param startedAt when its last attempt began
     * @param finishedAt when it reached a final status
     * @param attempts the number of attempts begun
     * @param maxAttempts the number of attempts allowed; absent until a node has claimed it
     * @param recoveries how often it was taken back from a failed node
     * @param epoch how often it was claimed
     * @param node the node that claimed it last
     */
    @JsonInclude(value = JsonInclude.Include.NON_NULL, content = JsonInclude.Include.USE_DEFAULTS)
    public record JobSummaryDescriptor(
            UUID id,
            String name,
            String status,
            int priority,
            @Nullable String capability,
            Instant createdAt,
            Instant scheduledAt,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            int attempts,
            @Nullable Integer maxAttempts,
            int recoveries,
            long epoch,
            @Nullable UUID node) {}

    /**
     * A job with the values it carries, sanitized, as {@code /actuator/forgecluster/jobs/{id}} returns it.
     *
     * @param id the job
     * @param name the name of its handler
     * @param status pending, claimed, running, completed, failed, cancelled or abandoned
     * @param priority its priority; jobs with a higher number run first
     * @param capability the capability a worker needs to run it; absent if any worker may
     * @param createdAt when it was enqueued
     * @param scheduledAt when it is, or was, due
     * @param startedAt when its last attempt began
     * @param finishedAt when it reached a final status
     * @param attempts the number of attempts begun
     * @param maxAttempts the number of attempts allowed; absent until a node has claimed it
     * @param recoveries how often it was taken back from a failed node
     * @param epoch how often it was claimed
     * @param node the node that claimed it last
     * @param metadata its metadata, sanitized
     * @param uniqueKey its unique key, sanitized
     * @param group its group, sanitized
     * @param progress the reported progress, sanitized
     * @param payload the payload, sanitized
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
            Instant scheduledAt,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            int attempts,
            @Nullable Integer maxAttempts,
            int recoveries,
            long epoch,
            @Nullable UUID node,
            Map<String, @Nullable Object> metadata,
            @Nullable Object uniqueKey,
            @Nullable Object group,
            @Nullable Object progress,
            @Nullable Object payload,
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
            Instant startedAt,
            @Nullable Long durationMillis,
            String result,
            @Nullable Object error) {}

    /**
     * Why a job is not running.
     *
     * @param reason the first reason that applies
     * @param text the reason as a sentence
     */
    public record ExplanationDescriptor(JobExplanation.Reason reason, String text) {}

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

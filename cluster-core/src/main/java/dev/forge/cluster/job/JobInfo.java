// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A job as recorded in the database.
 *
 * @param payload JSON
 * @param capability the capability that a node needs to run the job; null: none
 * @param scheduledAt when the job is, or was, due; {@link Instant#MAX} while it waits for something that has no time, as the job that
 *     carries a run of a workflow does until a signal arrives
 * @param attempts the number of attempts that were started
 * @param maxAttempts the number of attempts that are allowed; null: as the handler declares
 * @param recoveries how often the job was recovered from a dead or unresponsive node
 * @param nodeId the node that has the job or had it last
 * @param epoch the number of claims
 * @param progress JSON with percent and message
 * @param result JSON
 * @param lastError the error of the last failed attempt
 * @param group the group of the job; null: none
 * @param batch the batch that the job belongs to; null: none
 * @param tags the tags of the job, {@link JobOptions#withTags}
 * @param attemptHistory the last 20 attempts that did not succeed, the oldest first; empty in lists of jobs
 */
public record JobInfo(
        UUID id,
        String name,
        JobStatus status,
        String payload,
        int priority,
        @Nullable String capability,
        Instant scheduledAt,
        int attempts,
        @Nullable Integer maxAttempts,
        int recoveries,
        @Nullable UUID nodeId,
        long epoch,
        @Nullable Instant startedAt,
        @Nullable Instant finishedAt,
        @Nullable String progress,
        @Nullable String result,
        @Nullable String lastError,
        @Nullable String uniqueKey,
        @Nullable String group,
        @Nullable UUID batch,
        Map<String, String> metadata,
        List<String> tags,
        Instant createdAt,
        List<JobAttempt> attemptHistory) {}

package dev.forge.cluster.job;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A job as it stands in the database.
 *
 * @param payload JSON
 * @param capability what a node must offer to run it
 * @param attempts how many were begun
 * @param maxAttempts how many there may be; null: as its handler allows
 * @param recoveries how often it was taken from a dead or silent node
 * @param nodeId the node that has, or last had, it
 * @param epoch how often it was claimed
 * @param progress JSON with percent and message
 * @param result JSON
 * @param lastError what went wrong the last time
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
        Map<String, String> metadata,
        Instant createdAt,
        List<JobAttempt> attemptHistory) {}

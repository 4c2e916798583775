// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Batches of jobs, as the resource {@code batches} returns them.
 *
 * @param batches the batches, the newest first
 */
public record BatchesDescriptor(List<BatchDescriptor> batches) {

    /**
     * A batch of jobs. Its numbers do not include the jobs of batches that are part of it.
     *
     * @param name the name, sanitized
     * @param status open, running, succeeded, failed, cancelling or cancelled
     * @param parent the batch that it is part of
     * @param jobs the number of jobs that were added
     * @param completed the number of jobs that have completed; absent if not all numbers are exact
     * @param failed the number of jobs that have failed for good
     * @param cancelled the number of jobs that were cancelled
     * @param remaining the number of jobs that have not ended
     * @param exact whether all numbers are exact; otherwise failed, cancelled or remaining jobs are more than were counted
     * @param onFailure the callback job for the first failure
     * @param onEnd the callback job for the end
     * @param onSuccess the callback job for the success
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record BatchDescriptor(
            UUID id,
            @Nullable Object name,
            String status,
            @Nullable UUID parent,
            long jobs,
            @Nullable Long completed,
            long failed,
            long cancelled,
            long remaining,
            boolean exact,
            @Nullable UUID onFailure,
            @Nullable UUID onEnd,
            @Nullable UUID onSuccess,
            Instant createdAt,
            @Nullable Instant closedAt,
            @Nullable Instant failedAt,
            @Nullable Instant endedAt,
            @Nullable Instant succeededAt,
            @Nullable Instant cancelledAt) {}
}

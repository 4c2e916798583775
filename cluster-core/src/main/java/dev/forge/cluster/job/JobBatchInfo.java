// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A batch of jobs as recorded in the database. The numbers do not include the jobs of batches that are part of it.
 *
 * @param name the name for operators
 * @param parent the batch that this one is part of; null: none
 * @param total the number of jobs that were added
 * @param completed the number of jobs that have completed, or were deleted by hand; null if not all numbers are exact
 * @param failed the number of jobs that have failed for good or were abandoned
 * @param cancelled the number of jobs that were cancelled
 * @param remaining the number of jobs that have not ended
 * @param exact whether all numbers are exact. They are, unless 100,000 jobs or more, in lists 1,000 or more, are in one of the last
 *     three states: each of those numbers stops there
 * @param onFailure the callback job for the first failure; null: none
 * @param onEnd the callback job for the end; null: none
 * @param onSuccess the callback job for the success; null: none
 * @param closedAt when the batch was closed; null: it is open
 * @param failedAt when the first failed job was noticed; null: none has failed
 * @param endedAt when all jobs had ended for the first time; null: not yet
 * @param succeededAt when all jobs had completed; null: not yet
 * @param cancelledAt when the batch was cancelled; null: it was not
 */
public record JobBatchInfo(
        UUID id,
        String name,
        @Nullable UUID parent,
        long total,
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
        @Nullable Instant cancelledAt) {

    /** Returns the status of the batch. */
    public JobBatchStatus status() {
        if (succeededAt != null) {
            return JobBatchStatus.SUCCEEDED;
        }
        if (closedAt == null) {
            return JobBatchStatus.OPEN;
        }
        if (endedAt == null || remaining > 0) {
            return cancelledAt != null && endedAt == null ? JobBatchStatus.CANCELLING : JobBatchStatus.RUNNING;
        }
        return cancelledAt != null ? JobBatchStatus.CANCELLED : JobBatchStatus.FAILED;
    }
}

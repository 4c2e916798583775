// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.actuate.BatchesDescriptor.BatchDescriptor;
import dev.forge.cluster.autoconfigure.actuate.EndpointValues.Sanitized;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.Jobs;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/** {@code /actuator/forgecluster/batches}: lists batches of jobs, closes and cancels them, and retries their failed jobs. */
final class BatchesResource {

    private static final int DEFAULT_LIMIT = 20;

    private final Jobs jobs;
    private final EndpointValues values;

    BatchesResource(Jobs jobs, EndpointValues values) {
        this.jobs = jobs;
        this.values = values;
    }

    BatchesDescriptor list(@Nullable Integer limit, SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        return new BatchesDescriptor(jobs.batches(EndpointRequests.limit(limit, DEFAULT_LIMIT)).stream()
                .map(batch -> descriptor(batch, shown))
                .toList());
    }

    /** Returns one batch; null if there is no such batch. */
    @Nullable
    BatchDescriptor find(String id, SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        return jobs.batch(EndpointRequests.id("batch", id))
                .info()
                .map(batch -> descriptor(batch, shown))
                .orElse(null);
    }

    private static BatchDescriptor descriptor(JobBatchInfo batch, Sanitized shown) {
        return new BatchDescriptor(
                batch.id(),
                shown.value("batch", batch.name()),
                EnumText.hyphenated(batch.status()),
                batch.parent(),
                batch.total(),
                batch.completed(),
                batch.failed(),
                batch.cancelled(),
                batch.remaining(),
                batch.exact(),
                batch.onFailure(),
                batch.onEnd(),
                batch.onSuccess(),
                batch.createdAt(),
                batch.closedAt(),
                batch.failedAt(),
                batch.endedAt(),
                batch.succeededAt(),
                batch.cancelledAt());
    }

    /** Changes the state of a batch; returns null if there is no such batch. */
    @Nullable
    BatchDescriptor changeState(String id, String state, SecurityContext user) {
        UUID batchId = EndpointRequests.id("batch", id);
        JobBatch batch = jobs.batch(batchId);
        if (batch.info().isEmpty()) {
            return null;
        }
        try {
            boolean changed = switch (state) {
                case "closed" -> batch.close();
                case "cancelled" -> batch.cancel();
                case "retry" -> batch.retryFailed();
                default ->
                    throw EndpointRequests.invalid(
                            "Unsupported state '%s' for a batch: use 'closed', 'cancelled' or 'retry'"
                                    .formatted(state));
            };
            if (!changed) {
                throw EndpointRequests.invalid(
                        switch (state) {
                            case "closed" -> "Batch %s is closed already".formatted(batchId);
                            case "cancelled" -> "Batch %s has ended or is cancelled already".formatted(batchId);
                            default -> "Batch %s has no failed job to retry, or is being cancelled".formatted(batchId);
                        });
            }
        } catch (MutationRefusedException e) {
            throw EndpointRequests.refused(e);
        }
        return find(id, user);
    }
}

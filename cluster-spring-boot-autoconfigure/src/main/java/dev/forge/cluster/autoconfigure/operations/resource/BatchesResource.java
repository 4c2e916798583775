// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.Page;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The resource {@code batches}: lists batches of jobs, closes and cancels them, and retries their failed jobs. */
final class BatchesResource extends Resource {

    private static final int DEFAULT_LIMIT = 20;
    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList("after", "limit").withEntry().withChange();

    private final Jobs jobs;
    private final JobOperations operations;
    private final ValueSanitizer values;

    BatchesResource(Jobs jobs, JobOperations operations, ValueSanitizer values) {
        super("batches", PARAMETERS);
        this.jobs = jobs;
        this.operations = operations;
        this.values = values;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        if (!request.hasEntry()) {
            return request.result(list(request));
        }
        return request.result(request.path().size() == 2 ? find(request.entry(), request.caller()) : null);
    }

    /** The parameter {@code after} is {@code next} of the page before. */
    private JsonObject list(OperationRequest request) {
        try {
            Page<JobBatchInfo> page = operations.batches(request.limit(DEFAULT_LIMIT), request.text("after"));
            return new JsonObject()
                    .with("batches", values.shownTo(request.caller()).objects(page.items()))
                    .with("next", page.next());
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    /** Returns one batch; null if there is no such batch. */
    private @Nullable JsonObject find(String id, Caller caller) {
        return jobs.batch(OperationRequest.id("batch", id))
                .info()
                .map(values.shownTo(caller)::object)
                .orElse(null);
    }

    @Override
    protected OperationResult change(OperationRequest request, String state) {
        return request.result(changeState(request.entry(), state, request.caller()));
    }

    /** Changes the state of a batch; returns null if there is no such batch. */
    private @Nullable JsonObject changeState(String id, String state, Caller caller) {
        UUID batchId = OperationRequest.id("batch", id);
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
                    throw new InvalidOperationException(
                            "Unsupported state '%s' for a batch: use 'closed', 'cancelled' or 'retry'"
                                    .formatted(state));
            };
            if (!changed) {
                throw new InvalidOperationException(
                        switch (state) {
                            case "closed" -> "Batch %s is closed already".formatted(batchId);
                            case "cancelled" -> "Batch %s has ended or is cancelled already".formatted(batchId);
                            default -> "Batch %s has no failed job to retry, or is being cancelled".formatted(batchId);
                        });
            }
        } catch (MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
        return find(id, caller);
    }
}

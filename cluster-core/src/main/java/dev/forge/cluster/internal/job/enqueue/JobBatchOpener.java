// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobBatchStore.NewBatch;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Opens batches of jobs in the caller's transaction, together with their callbacks. */
public final class JobBatchOpener {

    private final RegisteredJobNames names;
    private final NewJobFactory newJobs;
    private final JobIds ids;
    private final Stores stores;
    private final CallerTransaction caller;

    /** Stores on the data source of the application. */
    public record Stores(JobInsertStore jobs, JobBatchStore batches) {}

    public JobBatchOpener(
            RegisteredJobNames names, NewJobFactory newJobs, JobIds ids, Stores stores, CallerTransaction caller) {
        this.names = names;
        this.newJobs = newJobs;
        this.ids = ids;
        this.stores = stores;
        this.caller = caller;
    }

    /**
     * Opens a batch; returns its id.
     *
     * @param nameOf returns the name of the job that takes a payload
     */
    public UUID open(JobBatchOptions options, Function<Object, String> nameOf) {
        NewJobFactory.requireStorable("batch name", options.name());
        UUID id = ids.next();
        List<NewJob> callbacks = new ArrayList<>();
        var batch = new NewBatch(
                id,
                options.name(),
                options.parent(),
                callback(id, options.onFailure(), nameOf, callbacks),
                callback(id, options.onEnd(), nameOf, callbacks),
                callback(id, options.onSuccess(), nameOf, callbacks));
        caller.inOne(() -> insert(batch, callbacks));
        return id;
    }

    private void insert(NewBatch batch, List<NewJob> callbacks) {
        UUID parent = batch.parent();
        if (!stores.batches.open(batch)) {
            boolean known = parent != null && stores.batches.exists(parent);
            throw new JobRejectedException(
                    "Batch %s is %s: no batch can be part of it".formatted(parent, known ? "closed" : "unknown"));
        }
        callbacks.forEach(callback -> stores.jobs.insertWaiting(callback, batch.id()));
    }

    /** Creates a callback, which waits for the batch; returns its id. */
    private @Nullable UUID callback(
            UUID batch,
            JobBatchOptions.@Nullable Callback callback,
            Function<Object, String> nameOf,
            List<NewJob> callbacks) {
        if (callback == null) {
            return null;
        }
        JobOptions options = callback.options();
        if (options.uniqueKey() != null
                || options.batch() != null
                || !options.startAfter().jobs().isEmpty()) {
            throw new JobRejectedException(
                    "The callback of a batch cannot have a unique key, belong to a batch or wait for other jobs");
        }
        names.reserved().requireFreeMetadata(options.metadata());
        Object payload = callback.payload();
        NewJob job = newJobs.create(
                nameOf.apply(payload), payload, options.withMetadata(JobBatchStore.CALLBACK_KEY, batch.toString()));
        callbacks.add(job);
        return job.id();
    }
}

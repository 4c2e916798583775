// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** {@link JobBatch} on {@code forge_job_batches}. */
public record DefaultJobBatch(UUID id, JobBatchStore batches, JobBatchReports reports, Surroundings surroundings)
        implements JobBatch {

    /**
     * What a change needs besides the tables of batches.
     *
     * @param requireMayChange checks the right to change data for a call
     * @param changed called after the commit of a change
     */
    public record Surroundings(
            Consumer<String> requireMayChange,
            AuditedChanges audit,
            CallerTransaction caller,
            Consumer<UUID> changed) {}

    @Override
    public boolean close() {
        return change("JobBatch.close", "batch.close", batches::close);
    }

    @Override
    public boolean cancel() {
        return change("JobBatch.cancel", "batch.cancel", batches::cancel);
    }

    @Override
    public boolean retryFailed() {
        return change("JobBatch.retryFailed", "batch.retry", batches::retryFailed);
    }

    private boolean change(String call, String action, Predicate<UUID> change) {
        surroundings.requireMayChange.accept(call);
        boolean done = surroundings.audit.record(new Operation(action, id), () -> change.test(id));
        if (done) {
            surroundings.caller.afterCommit(() -> surroundings.changed.accept(id));
        }
        return done;
    }

    @Override
    public Optional<JobBatchInfo> info() {
        return reports.find(id);
    }
}

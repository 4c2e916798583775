// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.store.JobBatchReports;
import dev.forge.cluster.internal.job.store.JobBatchStore;
import dev.forge.cluster.internal.runtime.AfterCommit;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * {@link JobBatch} on {@code forge_job_batches}.
 *
 * @param requireMayChange checks the right to change data for a call
 * @param changed called after the commit of a change
 */
record DefaultJobBatch(
        UUID id,
        JobBatchStore batches,
        JobBatchReports reports,
        Consumer<String> requireMayChange,
        Consumer<UUID> changed)
        implements JobBatch {

    @Override
    public boolean close() {
        return change("JobBatch.close", batches::close);
    }

    @Override
    public boolean cancel() {
        return change("JobBatch.cancel", batches::cancel);
    }

    @Override
    public boolean retryFailed() {
        return change("JobBatch.retryFailed", batches::retryFailed);
    }

    private boolean change(String call, Predicate<UUID> change) {
        requireMayChange.accept(call);
        boolean done = change.test(id);
        if (done) {
            AfterCommit.run(() -> changed.accept(id));
        }
        return done;
    }

    @Override
    public Optional<JobBatchInfo> info() {
        return reports.find(id);
    }
}

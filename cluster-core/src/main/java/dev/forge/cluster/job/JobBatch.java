// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ReadOnlyTransactionException;
import java.util.Optional;
import java.util.UUID;

/**
 * A batch of jobs, which {@link Jobs#batch(JobBatchOptions)} opens. Jobs are added with {@link JobOptions#withBatch}, in one or more
 * transactions, until the batch is closed.
 *
 * <pre>{@code
 * JobBatch batch = jobs.batch(JobBatchOptions.named("import").withOnEnd(new SendReport(file)));
 * jobs.enqueueAll(lines, JobOptions.defaults().withBatch(batch.id()));
 * batch.close();
 * }</pre>
 *
 * <p>All methods that change something join the caller's transaction, and throw {@link ReadOnlyTransactionException} in a read-only
 * one.
 */
public interface JobBatch {

    /** Returns the id. Other transactions and other nodes find the batch by it: {@link Jobs#batch(UUID)}. */
    UUID id();

    /**
     * Closes the batch: no job can be added any more, and the batch ends when its jobs have ended. A batch without jobs ends at
     * once. Waits for other transactions that have added jobs and are not committed yet.
     *
     * @return whether the batch was closed by this call; false if it is unknown or was closed before
     */
    boolean close();

    /** Returns the state of the batch; empty if it is unknown, perhaps because its retention has passed. */
    Optional<JobBatchInfo> info();

    /**
     * Cancels the batch: closes it and cancels its active jobs and those of the batches that are part of it. The nodes do so shortly
     * after the commit; handlers that run are interrupted. The callback for the end still runs.
     *
     * @return whether the batch was cancelled by this call; false if it is unknown, has ended or was cancelled before
     */
    boolean cancel();

    /**
     * Retries the jobs of the batch that have failed or were abandoned, with all their attempts, and those of the batches that are
     * part of it. The nodes do so shortly after the commit. When all jobs have completed then, the callback for the success runs;
     * the callbacks for the first failure and for the end do not run again.
     *
     * @return whether a retry was requested by this call; false if the batch is unknown or no job of it has failed
     */
    boolean retryFailed();
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Every statement that inserts, changes or deletes rows of {@code forge_jobs}; stores of other packages embed fragments from here where
 * one statement changes a job together with a row of theirs. The text of a transition stands once:
 *
 * <ul>
 *   <li>new: {@link dev.forge.cluster.internal.job.row.JobInsertStore JobInsertStore}, {@link
 *       dev.forge.cluster.internal.job.row.UniqueJobStore UniqueJobStore}
 *   <li>pending: {@link dev.forge.cluster.internal.job.row.JobScheduleStore JobScheduleStore}, {@link
 *       dev.forge.cluster.internal.job.row.JobReleaseStore JobReleaseStore} for jobs that wait for others, {@link
 *       dev.forge.cluster.internal.job.row.JobDependencyStore JobDependencyStore}, {@link
 *       dev.forge.cluster.internal.job.row.JobBatchStore JobBatchStore}
 *   <li>claimed: {@link dev.forge.cluster.internal.job.row.JobClaimStore JobClaimStore}, {@link
 *       dev.forge.cluster.internal.job.row.HeldJobStore HeldJobStore} (start, renew, report, give back)
 *   <li>ended by its node: {@link dev.forge.cluster.internal.job.row.JobFinishStore JobFinishStore}, {@link
 *       dev.forge.cluster.internal.job.row.HandlerTransactionStore HandlerTransactionStore}
 *   <li>taken from its node: {@link dev.forge.cluster.internal.job.row.JobRecoveryStore JobRecoveryStore}
 *   <li>on request: {@link dev.forge.cluster.internal.job.row.JobCancelStore JobCancelStore}, {@link
 *       dev.forge.cluster.internal.job.row.JobRestartStore JobRestartStore}, {@link
 *       dev.forge.cluster.internal.job.row.JobBulkStore JobBulkStore}
 *   <li>deleted: {@link dev.forge.cluster.internal.job.row.JobPurgeStore JobPurgeStore}
 * </ul>
 */
@NullMarked
package dev.forge.cluster.internal.job.row;

import org.jspecify.annotations.NullMarked;

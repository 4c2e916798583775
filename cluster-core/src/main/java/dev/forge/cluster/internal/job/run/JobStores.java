// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.HandlerTransactionStore;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.job.row.JobRecoveryStore;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import javax.sql.DataSource;

/**
 * The stores that a worker uses.
 *
 * @param handlerTransactions on the data source of the application, for handlers with a transaction of their own; the other
 *     stores are on that of the cluster
 */
public record JobStores(
        JobReleaseStore successors,
        JobQueueStore queues,
        JobClaimStore claims,
        HeldJobStore held,
        JobFinishStore finishes,
        JobRecoveryStore recoveries,
        JobLimitStore limits,
        JobLogStore logs,
        HandlerTransactionStore handlerTransactions) {

    public static JobStores of(Schema schema, DataSource control, DataSource application) {
        return new JobStores(
                new JobReleaseStore(schema, control),
                new JobQueueStore(schema, control),
                new JobClaimStore(schema, control),
                new HeldJobStore(schema, control),
                new JobFinishStore(schema, control),
                new JobRecoveryStore(schema, control),
                new JobLimitStore(schema, control),
                new JobLogStore(schema, control),
                new HandlerTransactionStore(schema, application));
    }
}

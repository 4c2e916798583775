// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.cron.CronStore.instant;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.Collection;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Finds the jobs that crons have enqueued, and cancels those that have not started. */
final class CronJobStore {

    private final Tables tables;
    private final JobCancelStore cancels;

    CronJobStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.cancels = new JobCancelStore(schema, source);
    }

    /**
     * A run that has not finished.
     *
     * @param slot its slot; null if its metadata has none
     * @param since when it started; for a pending run, the time before which it does not start
     */
    record UnfinishedRun(
            UUID job,
            JobStatus status,
            int attempts,
            @Nullable String slot,
            Instant since) {

        /** Returns whether the run has failed and waits for its next attempt. */
        boolean isRetry() {
            return status == JobStatus.PENDING && attempts > 0;
        }
    }

    /**
     * Returns those jobs that have not finished, by id. Called after their crons were locked, as a statement of its own: a
     * statement that waits for a lock sees the new version of the locked row, but other rows as they were before.
     */
    Map<UUID, UnfinishedRun> unfinishedRuns(Collection<UUID> jobs) {
        if (jobs.isEmpty()) {
            return Map.of();
        }
        return tables
                .sql("""
                SELECT id, status, attempts, metadata ->> 'slot',
                       CASE status WHEN 'pending' THEN scheduled_at ELSE coalesce(started_at, claimed_at, now()) END
                FROM ~.forge_jobs WHERE id = ANY (:ids) AND status IN %s
                """.formatted(JobRows.ACTIVE))
                .param("ids", jobs.toArray(UUID[]::new))
                .query((row, n) -> new UnfinishedRun(
                        row.getObject(1, UUID.class),
                        EnumText.parse(JobStatus.class, row.getString(2)),
                        row.getInt(3),
                        row.getString(4),
                        instant(row, 5)))
                .list()
                .stream()
                .collect(Collectors.toMap(UnfinishedRun::job, Function.identity()));
    }

    /** Cancels the latest run of a cron if its jitter delays it still. */
    void cancelNotStarted(String cron, String reason) {
        tables.sql("SELECT last_job_id FROM ~.forge_crons WHERE name = ? AND last_job_id IS NOT NULL")
                .param(cron)
                .query(UUID.class)
                .optional()
                .ifPresent(job -> cancels.cancelDelayed(job, reason));
    }

    /** Returns whether the node still holds the claim; if so, it keeps it until the transaction ends. */
    boolean isClaimedBy(UUID job, long epoch, UUID node) {
        return tables.sql("""
                SELECT 1 FROM ~.forge_jobs
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s FOR SHARE
                """.formatted(JobRows.HELD))
                .params(job, epoch, node)
                .query(Integer.class)
                .optional()
                .isPresent();
    }
}

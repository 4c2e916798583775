// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Cancels active jobs. A node that holds one of them loses its claim. */
public final class JobCancelStore {

    private final Tables tables;

    /**
     * @param source the data source of the application for calls that join its transactions, otherwise that of the cluster
     */
    public JobCancelStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * A job that was cancelled.
     *
     * @param node the node that held it; null if none did
     * @param hasKey whether another job may have waited for its end
     * @param batch the batch that it belongs to; null: none
     */
    public record CancelledJob(
            UUID id,
            @Nullable UUID node,
            boolean hasKey,
            @Nullable UUID batch) {

        public boolean held() {
            return node != null;
        }
    }

    /**
     * Returns a statement that cancels jobs {@code j}. Its rows are read by {@link #cancelled(ResultSet, int)}.
     *
     * @param error their last error, in SQL; null: it stays as it is
     * @param which the rest of the statement: other tables, and a condition that selects active jobs
     */
    public static String cancelling(@Nullable String error, String which) {
        return """
                UPDATE ~.forge_jobs j
                SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL,
                    -- An attempt that has ended before did not take until now.
                    started_at = CASE WHEN j.worker_id IS NOT NULL THEN j.started_at END%s
                %s
                RETURNING j.id, j.worker_id, j.unique_key IS NOT NULL, j.batch_id
                """.formatted(error == null ? "" : ", last_error = " + error, which);
    }

    /** Reads a row that {@link #cancelling} returns. */
    public static CancelledJob cancelled(ResultSet row, int number) throws SQLException {
        return new CancelledJob(
                row.getObject(1, UUID.class),
                row.getObject(2, UUID.class),
                row.getBoolean(3),
                row.getObject(4, UUID.class));
    }

    /**
     * Cancels a job.
     *
     * @param reserved prefixes of names whose jobs stay as they are
     * @return empty if there is no such active job
     */
    public Optional<CancelledJob> cancel(UUID id, List<String> reserved) {
        return tables.sql(cancelling(
                        null,
                        "WHERE j.id = ? AND j.status IN %s AND %s".formatted(JobRows.ACTIVE, JobRows.NOT_RESERVED)))
                .params(id, reserved.toArray(String[]::new))
                .query(JobCancelStore::cancelled)
                .optional();
    }

    /** Cancels those of these jobs that wait for their next attempt; returns them. Skips locked rows. */
    public Set<UUID> cancelRetries(Collection<UUID> jobs, String reason) {
        return cancelPending(jobs, "attempts > 0", reason);
    }

    /** Cancels a job that is not due yet and has not been attempted, unless its row is locked. */
    public void cancelDelayed(UUID job, String reason) {
        cancelPending(List.of(job), "attempts = 0 AND scheduled_at > clock_timestamp()", reason);
    }

    private Set<UUID> cancelPending(Collection<UUID> jobs, String condition, String reason) {
        return tables
                .sql(cancelling(":reason || coalesce('; ' || j.last_error, '')", """
                        WHERE j.id = ANY (ARRAY(
                            SELECT id FROM ~.forge_jobs WHERE id = ANY (:ids) AND status = 'pending' AND %s
                            ORDER BY id FOR UPDATE SKIP LOCKED))
                        """.formatted(condition)))
                .param("reason", reason)
                .param("ids", jobs.toArray(UUID[]::new))
                .query(JobCancelStore::cancelled)
                .list()
                .stream()
                .map(CancelledJob::id)
                .collect(Collectors.toSet());
    }

    /** Cancels jobs of those of these batches that were cancelled, up to the limit; returns the jobs. Skips locked rows. */
    public List<CancelledJob> cancelOfBatches(Collection<UUID> batches, int limit) {
        return tables.sql(cancelling("'its batch was cancelled'", """
                        WHERE j.id = ANY (ARRAY(
                            SELECT m.id FROM ~.forge_job_batches b
                            CROSS JOIN LATERAL (SELECT j.id %s AND j.status IN %s %s LIMIT :limit FOR UPDATE SKIP LOCKED) AS m
                            WHERE b.id = ANY (:batches::uuid[]) AND b.cancelled_at IS NOT NULL AND b.ended_at IS NULL
                            LIMIT :limit))
                        """.formatted(
                                JobBatchStore.jobsIn(JobBatchStore.ACTIVE), JobRows.ACTIVE, JobBatchStore.inOrder())))
                .param("limit", limit)
                .param("batches", batches.toArray(UUID[]::new))
                .query(JobCancelStore::cancelled)
                .list();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.ConnectionCallback;

/** Restarts jobs that have ended: they are pending again, as if they had never been attempted. */
public final class JobRestartStore {

    /** What changes in each job {@code j} that is restarted. */
    private static final String RESTARTED = """
            status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, worker_id = NULL,
            lease_expires_at = NULL, started_at = NULL, finished_at = NULL""";

    /** The batch that a callback waits for again. */
    private static final String WAITS_FOR_BATCH = """
            (SELECT b.id FROM ~.forge_job_batches b
             WHERE b.id = CASE WHEN j.metadata ->> 'forge.batch' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                               THEN (j.metadata ->> 'forge.batch')::uuid END
               AND CASE j.id WHEN b.on_failure THEN b.failed_at IS NULL WHEN b.on_end THEN b.ended_at IS NULL
                             WHEN b.on_success THEN b.succeeded_at IS NULL END)""";

    static final String RESTARTABLE = "j.status IN ('failed', 'cancelled', 'abandoned')";

    /** Whether no active job has the key of job {@code j}. */
    static final String KEY_IS_FREE = """
            NOT EXISTS (SELECT FROM ~.forge_jobs a WHERE a.name = j.name AND a.unique_key = j.unique_key
                          AND a.waits_for IS NULL AND a.status IN %s)""".formatted(JobRows.ACTIVE);

    private final Tables tables;

    /**
     * @param source the data source of the application for calls that join its transactions, otherwise that of the cluster
     */
    public JobRestartStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * Returns a statement that restarts jobs {@code j}.
     *
     * @param changes further changes, each after a comma
     * @param which the rest of the statement: other tables, and a condition that selects jobs that have ended
     */
    static String restarting(String changes, String which) {
        return "UPDATE ~.forge_jobs j SET %s, retention = NULL, waits_for = %s%s %s"
                .formatted(RESTARTED, WAITS_FOR_BATCH, changes, which);
    }

    /**
     * Returns the end of {@link JobInsertStore#insertingCarrier}: restarts the job {@code j} of a run if it exists.
     *
     * @param key the unique key that the job has from now on, in SQL
     */
    public static String orRestarting(String key) {
        return " ON CONFLICT (id) DO UPDATE SET %s, waits_for = NULL, unique_key = %s".formatted(RESTARTED, key);
    }

    /**
     * What replaces the payload of a job that is retried.
     *
     * @param payload JSON
     * @param group the group of the job; null: none
     */
    public record Edit(String payload, @Nullable String group) {}

    // A checkpoint belongs to the payload that it was made for. A claim measures a job of unknown size.
    private static final String EDITED =
            ", payload = ?::jsonb, job_group = ?, body_bytes = NULL, checkpoint = NULL, checkpoint_bytes = NULL";

    /**
     * Restarts a failed, cancelled or abandoned job, unless an active job has its key.
     *
     * @param reserved prefixes of names whose jobs stay as they are
     */
    public boolean retry(UUID id, List<String> reserved) {
        return retry(id, reserved, null);
    }

    /**
     * Restarts a job like {@link #retry(UUID, List)}.
     *
     * @param edit replaces its payload; null: the job keeps it
     */
    public boolean retry(UUID id, List<String> reserved, @Nullable Edit edit) {
        return Boolean.TRUE.equals(tables.jdbc().execute((ConnectionCallback<Boolean>) connection -> {
            // A concurrent enqueue of its key may violate the constraint; the caller's transaction must survive that.
            Savepoint before = connection.getAutoCommit() ? null : connection.setSavepoint();
            try (PreparedStatement statement = connection.prepareStatement(tables.complete(restarting(
                    edit == null ? "" : EDITED,
                    "WHERE j.id = ? AND %s AND %s AND %s"
                            .formatted(RESTARTABLE, KEY_IS_FREE, JobRows.NOT_RESERVED))))) {
                int next = 1;
                if (edit != null) {
                    statement.setString(next++, edit.payload);
                    statement.setString(next++, edit.group);
                }
                statement.setObject(next++, id);
                statement.setArray(next, connection.createArrayOf("text", reserved.toArray()));
                boolean restarted = statement.executeUpdate() == 1;
                if (before != null) {
                    connection.releaseSavepoint(before);
                }
                return restarted;
            } catch (SQLException e) {
                if (!JobRows.UNIQUE_VIOLATION.equals(e.getSQLState())) {
                    throw e;
                }
                if (before != null) {
                    connection.rollback(before);
                }
                return false;
            }
        }));
    }

    /** Restarts failed jobs of those of these batches for which that was requested, up to the limit; returns how many. */
    public int restartOfBatches(Collection<UUID> batches, int limit) {
        return tables.sql(restarting(
                        "", """
                        WHERE j.id = ANY (ARRAY(
                            SELECT m.id FROM ~.forge_job_batches b
                            CROSS JOIN LATERAL (
                                SELECT j.id %1$s AND j.status IN ('failed', 'abandoned') AND j.finished_at <= b.retry_up_to %2$s
                                LIMIT :limit FOR UPDATE SKIP LOCKED) AS m
                            WHERE b.id = ANY (:batches::uuid[]) AND b.retry_up_to IS NOT NULL
                            LIMIT :limit))
                        """.formatted(JobBatchStore.jobsIn(JobBatchStore.FAILED), JobBatchStore.inOrder())))
                .param("limit", limit)
                .param("batches", batches.toArray(UUID[]::new))
                .update();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.job.JobBatchInfo;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Queries about batches of jobs. Each counts at most so many jobs of a batch in each state. */
public final class JobBatchReports {

    /** Counts of one batch stop at this number. */
    private static final int MOST_COUNTED = 100_000;

    /** Counts of a batch in a list stop at this number. */
    private static final int MOST_COUNTED_IN_LIST = 1_000;

    /** How many batches, the last ones, are searched for failed ones. */
    private static final int MOST_EXAMINED = 1_000;

    private static final int COUNTED = 13;

    private final Schema schema;
    private final JdbcClient client;

    public JobBatchReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** Returns a batch; empty if there is none with that id. */
    public Optional<JobBatchInfo> find(UUID id) {
        return client.sql(schema.sql(
                        "SELECT %s FROM ~.forge_job_batches b WHERE b.id = ?".formatted(columns(MOST_COUNTED))))
                .param(id)
                .query((row, n) -> info(row, MOST_COUNTED))
                .optional();
    }

    /**
     * Returns batches, the newest first.
     *
     * @param before only older ones; null: all
     */
    public List<JobBatchInfo> list(@Nullable UUID before, int limit) {
        return client.sql(schema.sql("""
                SELECT %s
                FROM (SELECT * FROM ~.forge_job_batches WHERE id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                      ORDER BY id DESC LIMIT :limit) AS b
                ORDER BY b.id DESC
                """.formatted(columns(MOST_COUNTED_IN_LIST))))
                .param("before", before, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> info(row, MOST_COUNTED_IN_LIST))
                .list();
    }

    /** Returns batches of which jobs failed within that time and were not retried since, the last ones first, without parts of others. */
    public List<JobBatchInfo> failed(Duration within, int limit) {
        return client.sql(schema.sql("""
                SELECT %s
                FROM (SELECT * FROM (
                          (SELECT * FROM ~.forge_job_batches WHERE ended_at IS NULL ORDER BY id DESC LIMIT :most)
                          UNION ALL
                          (SELECT * FROM ~.forge_job_batches WHERE ended_at IS NOT NULL AND succeeded_at IS NULL
                           ORDER BY id DESC LIMIT :most)) AS latest
                      WHERE parent_id IS NULL AND cancelled_at IS NULL
                        AND greatest(failed_at, retried_at) > now() - :within * interval '1 millisecond') AS b
                WHERE %s ORDER BY b.failed_at DESC, b.id LIMIT :limit
                """.formatted(columns(MOST_COUNTED_IN_LIST), JobBatchStore.HAS_FAILED)))
                .param("most", MOST_EXAMINED)
                .param("within", within.toMillis())
                .param("limit", limit)
                .query((row, n) -> info(row, MOST_COUNTED_IN_LIST))
                .list();
    }

    private static String columns(int most) {
        return """
                b.id, b.name, b.parent_id, b.on_failure, b.on_end, b.on_success, b.created_at, b.closed_at, b.failed_at, b.ended_at,
                b.succeeded_at, b.cancelled_at, %s, %s, %s,
                (SELECT coalesce(sum(p.jobs), 0) FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id),
                (SELECT coalesce(sum(p.failed), 0) FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id AND p.jobs = 0),
                (SELECT coalesce(sum(p.cancelled), 0) FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id AND p.jobs = 0)
                """.formatted(
                        count(JobBatchStore.ACTIVE, most),
                        count(JobBatchStore.FAILED, most),
                        count(JobBatchStore.CANCELLED, most));
    }

    private static String count(int state, int most) {
        return "(SELECT count(*) FROM (SELECT j.id %s %s LIMIT (SELECT %d)) AS few)"
                .formatted(JobBatchStore.jobsIn(state), JobBatchStore.inOrder(), most);
    }

    private static JobBatchInfo info(ResultSet row, int most) throws SQLException {
        long remaining = row.getLong(COUNTED);
        long failed = row.getLong(COUNTED + 1);
        long cancelled = row.getLong(COUNTED + 2);
        long total = row.getLong(COUNTED + 3);
        // No count can have stopped in a batch that has no more jobs.
        boolean exact = total <= most || (remaining < most && failed < most && cancelled < most);
        failed += row.getLong(COUNTED + 4);
        cancelled += row.getLong(COUNTED + 5);
        return new JobBatchInfo(
                row.getObject(1, UUID.class),
                row.getString(2),
                row.getObject(3, UUID.class),
                total,
                exact ? Math.max(0, total - remaining - failed - cancelled) : null,
                failed,
                cancelled,
                remaining,
                exact,
                row.getObject(4, UUID.class),
                row.getObject(5, UUID.class),
                row.getObject(6, UUID.class),
                row.getObject(7, OffsetDateTime.class).toInstant(),
                instant(row, 8),
                instant(row, 9),
                instant(row, 10),
                instant(row, 11),
                instant(row, 12));
    }

    private static @Nullable Instant instant(ResultSet row, int column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }
}

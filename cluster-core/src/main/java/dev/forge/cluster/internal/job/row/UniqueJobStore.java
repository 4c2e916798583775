// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.job.row.JobStore.NewJob;
import dev.forge.cluster.job.UniquePolicy;
import java.sql.Array;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * Adds jobs whose unique key has a window or a debounce, and many jobs with unique keys at once. {@link JobStore#insertUnique} adds
 * single jobs with a plain key. Windows are rows of {@code forge_job_windows}.
 */
public final class UniqueJobStore {

    private final Schema schema;
    private final JdbcTemplate jdbc;

    /** The part of a statement that ends the windows of {@code deleted} jobs that did not complete: without its row, the job would hold. */
    static final String ENDING_WINDOWS = """
            ended AS (
                DELETE FROM ~.forge_job_windows WHERE (name, unique_key) IN (
                    SELECT w.name, w.unique_key FROM deleted d
                    CROSS JOIN LATERAL (
                        SELECT name, unique_key FROM ~.forge_job_windows
                        WHERE name = d.name AND unique_key = d.unique_key AND job_id = d.id
                        FOR UPDATE SKIP LOCKED) AS w
                    WHERE d.status <> 'completed'))
            """;

    /** @param source the data source of the application for calls that join its transactions, otherwise that of the cluster */
    public UniqueJobStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
    }

    /**
     * A job to insert unless its key forbids it.
     *
     * @param job the job; if it is debounced, its delay is that of the debounce
     * @param windowMillis how long no second job with the key is inserted; null: while the job is active
     * @param debounceMaxMillis how long the start of the job can be moved; null: the job is not debounced
     */
    public record UniqueJob(
            NewJob job,
            String key,
            UniquePolicy policy,
            @Nullable Long windowMillis,
            @Nullable Long debounceMaxMillis) {

        /** Returns whether the job replaces a pending one, and waits for a running one. */
        public boolean replaces() {
            return policy == UniquePolicy.REPLACE || debounceMaxMillis != null;
        }
    }

    /** Inserts a job in the caller's transaction; returns its id, or the id of the job that has its key. */
    public UUID insert(UniqueJob job) {
        return insertAll(List.of(job)).get(0);
    }

    /**
     * Inserts jobs one after the other in the caller's transaction, with one statement or, if they are large, with a few. Callers sort
     * them by name and key, so that they cannot deadlock.
     *
     * @return for each job its id, or the id of the job that has its key
     */
    public List<UUID> insertAll(List<UniqueJob> jobs) {
        List<UUID> ids = new ArrayList<>(jobs.size());
        JobRows.inParts(
                        jobs,
                        unique -> (long) unique.job.payload().length()
                                + unique.job.metadata().length())
                .forEach(part -> ids.addAll(insertTogether(part)));
        return ids;
    }

    private List<UUID> insertTogether(List<UniqueJob> jobs) {
        return jdbc.query(
                schema.sql("""
                SELECT ~.forge_enqueue_unique(
                    d.id, d.name, d.payload::jsonb, d.priority, d.capability, d.not_before::timestamptz,
                    d.delay * interval '1 millisecond', d.max_attempts, d.metadata::jsonb, d.unique_key, d.bytes, d.job_group,
                    d.replaces, d.unique_for * interval '1 millisecond', d.debounce_max * interval '1 millisecond', d.tags::text[])
                FROM (
                    SELECT * FROM unnest(?::uuid[], ?::text[], ?::text[], ?::int[], ?::text[], ?::text[], ?::bigint[], ?::int[],
                                         ?::text[], ?::text[], ?::int[], ?::text[], ?::boolean[], ?::bigint[], ?::bigint[], ?::text[])
                        WITH ORDINALITY AS u (id, name, payload, priority, capability, not_before, delay, max_attempts,
                                              metadata, unique_key, bytes, job_group, replaces, unique_for, debounce_max, tags, position)
                    ORDER BY position) AS d
                """),
                statement -> {
                    Connection connection = statement.getConnection();
                    statement.setArray(1, ofJob(connection, "uuid", jobs, NewJob::id));
                    statement.setArray(2, ofJob(connection, "text", jobs, NewJob::name));
                    statement.setArray(3, ofJob(connection, "text", jobs, NewJob::payload));
                    statement.setArray(4, ofJob(connection, "int4", jobs, NewJob::priority));
                    statement.setArray(5, ofJob(connection, "text", jobs, NewJob::capability));
                    statement.setArray(6, ofJob(connection, "text", jobs, UniqueJobStore::time));
                    statement.setArray(7, ofJob(connection, "int8", jobs, NewJob::delayMillis));
                    statement.setArray(8, ofJob(connection, "int4", jobs, NewJob::maxAttempts));
                    statement.setArray(9, ofJob(connection, "text", jobs, NewJob::metadata));
                    statement.setArray(10, SqlArrays.of(connection, "text", jobs, UniqueJob::key));
                    statement.setArray(11, ofJob(connection, "int4", jobs, NewJob::bytes));
                    statement.setArray(12, ofJob(connection, "text", jobs, NewJob::group));
                    statement.setArray(13, SqlArrays.of(connection, "bool", jobs, UniqueJob::replaces));
                    statement.setArray(14, SqlArrays.of(connection, "int8", jobs, UniqueJob::windowMillis));
                    statement.setArray(15, SqlArrays.of(connection, "int8", jobs, UniqueJob::debounceMaxMillis));
                    // An array of arrays would have to be rectangular.
                    statement.setArray(
                            16, SqlArrays.of(connection, "text", jobs, unique -> literal(connection, unique)));
                },
                (row, n) -> row.getObject(1, UUID.class));
    }

    private static Array ofJob(
            Connection connection, String type, List<UniqueJob> jobs, Function<NewJob, @Nullable Object> column)
            throws SQLException {
        return SqlArrays.of(connection, type, jobs, unique -> column.apply(unique.job));
    }

    private static @Nullable String literal(Connection connection, UniqueJob unique) {
        List<String> tags = unique.job.tags();
        try {
            return tags.isEmpty()
                    ? null
                    : connection.createArrayOf("text", tags.toArray()).toString();
        } catch (SQLException e) {
            throw new IllegalStateException("Could not print an array", e);
        }
    }

    private static @Nullable String time(NewJob job) {
        Instant at = job.at();
        return at == null ? null : at.toString();
    }

    /** Deletes windows that have ended, up to the limit. */
    public int purgeWindows(int limit) {
        return jdbc.update(schema.sql("""
                DELETE FROM ~.forge_job_windows
                WHERE (name, unique_key) IN (
                    SELECT name, unique_key FROM ~.forge_job_windows WHERE ends_at <= now()
                    ORDER BY ends_at LIMIT ? FOR UPDATE SKIP LOCKED)
                """), limit);
    }
}

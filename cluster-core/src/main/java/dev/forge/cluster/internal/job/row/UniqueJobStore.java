// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.UniquePolicy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DuplicateKeyException;

/**
 * Inserts jobs with unique keys: a single job with a plain key with a statement of its own, others with {@code forge_enqueue_unique}.
 * Windows are rows of {@code forge_job_windows}.
 */
public final class UniqueJobStore {

    /** How often an insertion is tried at most while other jobs get and lose its key. */
    private static final int MOST_TRIES = 100;

    private final Tables tables;
    private final JobInsertStore inserts;

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
        this.tables = new Tables(schema, source);
        this.inserts = new JobInsertStore(schema, source);
    }

    /** Inserts a job unless an active job has its key; returns the id of the active job with that key. */
    public UUID insertUnique(NewJob job, String key, UniquePolicy policy) {
        for (int i = 0; i < MOST_TRIES; i++) {
            UUID id = switch (policy) {
                case KEEP -> insertOrFind(job, key);
                case REPLACE -> replace(job, key);
            };
            if (id != null) {
                return id;
            }
            // The job that had the key has ended in the meantime.
        }
        throw new ConcurrencyFailureException(
                "Job '%s': the active job with the unique key '%s' changed again and again, or its row is inconsistent."
                        .formatted(job.name(), key));
    }

    private @Nullable UUID insertOrFind(NewJob job, String key) {
        return inserts.insertWithKey(job, key, null) ? job.id() : active(job.name(), key, "");
    }

    private @Nullable UUID replace(NewJob job, String key) {
        UUID replaced = overwrite(job, key, "waits_for IS NOT NULL");
        if (replaced == null) {
            replaced = overwrite(job, key, "waits_for IS NULL");
        }
        if (replaced != null || inserts.insertWithKey(job, key, null)) {
            return replaced != null ? replaced : job.id();
        }
        // A job that is pending again is overwritten in the next iteration.
        UUID running = active(job.name(), key, "AND waits_for IS NULL AND status <> 'pending'");
        return running != null && inserts.insertWithKey(job, key, running) ? job.id() : null;
    }

    // Waits for a concurrent claim of the row, and then does not find it pending.
    private @Nullable UUID overwrite(NewJob job, String key, String condition) {
        String[] tags = job.tags().toArray(String[]::new);
        String tagging =
                tags.length == 0 ? "" : ", tagged AS (%s ON CONFLICT DO NOTHING)".formatted(JobInsertStore.INSERT_TAGS);
        List<UUID> replaced = tables.query(
                """
                WITH job AS (
                    UPDATE ~.forge_jobs
                    SET payload = ?::jsonb, priority = ?, worker_capability = ?,
                        scheduled_at = greatest(?, clock_timestamp() + ? * interval '1 millisecond'), max_attempts = ?,
                        metadata = ?::jsonb, body_bytes = ?, job_group = ?, tags = ?, attempts = 0, recoveries = 0,
                        progress = NULL, checkpoint = NULL, checkpoint_bytes = NULL, last_error = NULL, attempt_history = NULL
                    WHERE name = ? AND unique_key = ? AND status = 'pending' AND %s
                    RETURNING id, tags)%s
                SELECT id FROM job
                """.formatted(condition, tagging),
                statement -> {
                    int next = JobInsertStore.bindBody(statement, 1, job);
                    statement.setArray(
                            next++,
                            tags.length == 0 ? null : statement.getConnection().createArrayOf("text", tags));
                    statement.setString(next++, job.name());
                    statement.setString(next, key);
                },
                (row, n) -> row.getObject(1, UUID.class));
        return replaced.isEmpty() ? null : replaced.get(0);
    }

    private @Nullable UUID active(String name, String key, String condition) {
        return tables.sql("""
                SELECT id FROM ~.forge_jobs WHERE name = ? AND unique_key = ? AND status IN %s %s
                ORDER BY waits_for NULLS FIRST LIMIT 1
                """.formatted(JobRows.ACTIVE, condition))
                .params(name, key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional()
                .orElse(null);
    }

    /**
     * Inserts a job with a key that no other job should have.
     *
     * @throws DuplicateKeyException if an active job has the key; a repetition would fail, too
     */
    public void insertWithOwnKey(NewJob job, String key) {
        UUID active = insertUnique(job, key, UniquePolicy.KEEP);
        if (!active.equals(job.id())) {
            String message =
                    "Job '%s' with the unique key '%s' exists already: %s. Cancel that job if it was enqueued by hand."
                            .formatted(job.name(), key, active);
            throw new DuplicateKeyException(message, new SQLException(message, JobRows.UNIQUE_VIOLATION));
        }
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
        JobRows.inParts(jobs, unique -> unique.job.length()).forEach(part -> ids.addAll(insertTogether(part)));
        return ids;
    }

    private List<UUID> insertTogether(List<UniqueJob> jobs) {
        return tables.query(
                """
                SELECT ~.forge_enqueue_unique(
                    d.id, d.name, d.payload::jsonb, d.priority, d.capability, d.not_before::timestamptz,
                    d.delay * interval '1 millisecond', d.max_attempts, d.metadata::jsonb, d.unique_key, d.bytes, d.job_group,
                    d.replaces, d.unique_for * interval '1 millisecond', d.debounce_max * interval '1 millisecond', d.tags::text[])
                FROM (
                    SELECT * FROM unnest(%1$s, ?::text[], ?::bigint[], ?::text[], ?::text[], ?::boolean[], ?::bigint[], ?::bigint[], ?::text[])
                        WITH ORDINALITY AS u (%2$s, not_before, delay, metadata, unique_key, replaces, unique_for, debounce_max, tags, position)
                    ORDER BY position) AS d
                """.formatted(JobInsertStore.COLUMNS, JobInsertStore.COLUMN_NAMES),
                statement -> {
                    List<NewJob> all = jobs.stream().map(UniqueJob::job).toList();
                    int next = JobInsertStore.bindColumns(statement, 1, all);
                    next = SqlArrays.bind(statement, next, "text", all, job -> Objects.toString(job.at(), null));
                    next = SqlArrays.bind(statement, next, "int8", all, NewJob::delayMillis);
                    next = SqlArrays.bind(statement, next, "text", all, NewJob::metadata);
                    next = SqlArrays.bind(statement, next, "text", jobs, UniqueJob::key);
                    next = SqlArrays.bind(statement, next, "bool", jobs, UniqueJob::replaces);
                    next = SqlArrays.bind(statement, next, "int8", jobs, UniqueJob::windowMillis);
                    next = SqlArrays.bind(statement, next, "int8", jobs, UniqueJob::debounceMaxMillis);
                    // An array of arrays would have to be rectangular.
                    Connection connection = statement.getConnection();
                    SqlArrays.bind(statement, next, "text", all, job -> literal(connection, job.tags()));
                },
                (row, n) -> row.getObject(1, UUID.class));
    }

    private static @Nullable String literal(Connection connection, List<String> tags) {
        try {
            return tags.isEmpty()
                    ? null
                    : connection.createArrayOf("text", tags.toArray()).toString();
        } catch (SQLException e) {
            throw new IllegalStateException("Could not print an array", e);
        }
    }

    /** Deletes windows that have ended, up to the limit. */
    public int purgeWindows(int limit) {
        return tables.sql("""
                DELETE FROM ~.forge_job_windows
                WHERE (name, unique_key) IN (
                    SELECT name, unique_key FROM ~.forge_job_windows WHERE ends_at <= now()
                    ORDER BY ends_at LIMIT ? FOR UPDATE SKIP LOCKED)
                """).param(limit).update();
    }
}

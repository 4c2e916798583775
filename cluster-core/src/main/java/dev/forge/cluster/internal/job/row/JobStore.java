// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.UniquePolicy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Types;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Adds jobs to {@code forge_jobs}, and cancels or retries them on request. {@link JobQueueStore}, {@link JobClaimStore}, {@link
 * HeldJobStore}, {@link JobFinishStore} and {@link JobRecoveryStore} serve the nodes that run jobs; {@link JobReports} answers
 * queries of people, {@link JobKeeping} pauses names and purges rows.
 */
public final class JobStore {

    private static final String UNIQUE_VIOLATION = "23505";

    /** How often a job is inserted or replaced at most while others end or claim the job that has its key. */
    private static final int MOST_TRIES = 100;

    /** The largest size that {@code body_bytes} may have. */
    private static final int MOST_BYTES = 1_000_000_000;

    /** Whether the name of a row begins with none of the prefixes of an array. */
    private static final String NOT_RESERVED =
            "NOT EXISTS (SELECT FROM unnest(?::text[]) AS r (prefix) WHERE starts_with(name, r.prefix))";

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;

    /**
     * Creates a store.
     *
     * @param source the data source of the application for calls that join its transactions, otherwise that of the cluster
     */
    public JobStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
    }

    // Enqueueing --------------------------------------------------------------------------------------------

    /**
     * A job to insert.
     *
     * @param payload JSON
     * @param delayMillis delay from now; 0 if {@code at} is given
     * @param at when the job is due; not before its insertion, because a time in the past would put it ahead of all other jobs
     * @param metadata JSON
     * @param group the group of the job; null: none
     * @param tags distinct tags, at most ten
     */
    public record NewJob(
            UUID id,
            String name,
            String payload,
            int priority,
            @Nullable String capability,
            long delayMillis,
            @Nullable Instant at,
            @Nullable Integer maxAttempts,
            String metadata,
            @Nullable String group,
            List<String> tags) {

        /** Creates a job without tags. */
        public NewJob(
                UUID id,
                String name,
                String payload,
                int priority,
                @Nullable String capability,
                long delayMillis,
                @Nullable Instant at,
                @Nullable Integer maxAttempts,
                String metadata,
                @Nullable String group) {
            this(id, name, payload, priority, capability, delayMillis, at, maxAttempts, metadata, group, List.of());
        }

        /** Returns the queue that the job is claimed from. */
        public Queue queue() {
            return new Queue(name, capability == null ? "" : capability, priority, group != null);
        }

        /** Returns whether the job is due when it is inserted. */
        public boolean isDueAtOnce() {
            return delayMillis == 0 && at == null;
        }

        /** Returns how many bytes a claim of the job reads. */
        int bytes() {
            return (int) Math.min(MOST_BYTES, PrintedJson.bytes(payload) + PrintedJson.bytes(metadata));
        }
    }

    // Not now(): all jobs of one transaction would have the same time, and a mark could not distinguish them.
    private static final String INSERT = """
            INSERT INTO ~.forge_jobs
                (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, unique_key, waits_for,
                 body_bytes, job_group%s)
            VALUES (?, ?, ?::jsonb, ?, ?, greatest(?, clock_timestamp() + ? * interval '1 millisecond'), ?, ?::jsonb, ?, ?, ?, ?%s)
            """;

    /** Inserts a job in the caller's transaction. */
    public void insert(NewJob job) {
        jdbc.update(
                schema.sql(job.tags.isEmpty() ? INSERT_PLAIN : INSERT_TAGGED),
                statement -> bind(statement, job, null, null));
    }

    private static final String ON_CONFLICT = " ON CONFLICT DO NOTHING";
    private static final String INSERT_PLAIN = INSERT.formatted("", "");
    private static final String INSERT_PLAIN_OR_NOT = INSERT_PLAIN + ON_CONFLICT;
    private static final String INSERT_TAGGED = tagged(INSERT.formatted(", tags", ", ?"));
    private static final String INSERT_TAGGED_OR_NOT = tagged(INSERT.formatted(", tags", ", ?") + ON_CONFLICT);

    /** Makes jobs findable by their tags. The number of rows that it inserts is that of the tags. */
    private static final String INSERT_TAGS = """
            INSERT INTO ~.forge_job_tags (tag, job_id) SELECT t.tag, job.id FROM job CROSS JOIN unnest(job.tags::text[]) AS t (tag)
            """;

    private static String tagged(String insertion) {
        return "WITH job AS (%s RETURNING id, tags) %s".formatted(insertion, INSERT_TAGS);
    }

    /** Inserts a job that waits for another job or for a batch, in the caller's transaction. */
    public void insertWaiting(NewJob job, UUID waitsFor) {
        jdbc.update(
                schema.sql(job.tags.isEmpty() ? INSERT_PLAIN : INSERT_TAGGED),
                statement -> bind(statement, job, null, waitsFor));
    }

    /** Inserts jobs in the caller's transaction, with one statement or, if they are large, with a few. */
    public void insertAll(List<NewJob> jobs) {
        insertAll(jobs, null, JobOptions.defaults().startAfter());
    }

    /**
     * Inserts jobs of a batch, or jobs that run after others, in the caller's transaction; false if the batch is unknown or closed.
     *
     * @param batch the batch; null: none
     */
    public boolean insertAll(List<NewJob> jobs, @Nullable UUID batch, JobOptions.StartAfter after) {
        boolean waiting = !after.jobs().isEmpty();
        return inParts(
                        jobs,
                        waiting ? Math.max(1, MOST_DEPENDENCIES / after.jobs().size()) : jobs.size())
                .stream()
                .allMatch(part -> {
                    // All have the same tags.
                    String sql =
                            insertMany(batch != null, waiting, !part.get(0).tags.isEmpty());
                    return jdbc.update(schema.sql(sql), statement -> {
                                int next = 1;
                                if (batch != null) {
                                    statement.setObject(next++, batch);
                                    statement.setInt(next++, part.size());
                                }
                                if (waiting) {
                                    Connection connection = statement.getConnection();
                                    statement.setBoolean(next++, after.anyway());
                                    statement.setArray(next++, SqlArrays.of(connection, "uuid", part, NewJob::id));
                                    statement.setArray(
                                            next++,
                                            SqlArrays.of(connection, "uuid", List.copyOf(after.jobs()), id -> id));
                                }
                                bindAll(statement, part, next);
                            })
                            > 0;
                });
    }

    /** How many dependencies one statement inserts. */
    private static final int MOST_DEPENDENCIES = 10_000;

    private static List<List<NewJob>> inParts(List<NewJob> jobs, int most) {
        var parts = new ArrayList<List<NewJob>>();
        for (int from = 0; from < jobs.size(); from += most) {
            parts.addAll(JobRows.inParts(
                    jobs.subList(from, Math.min(from + most, jobs.size())),
                    job -> (long) job.payload.length() + job.metadata.length()));
        }
        return parts;
    }

    /** Returns the statement that inserts many jobs, and what belongs to them; all of them or, if their batch is closed, none. */
    private static String insertMany(boolean inBatch, boolean waiting, boolean tagged) {
        var with = new ArrayList<String>();
        if (inBatch) {
            with.add(JobBatchStore.ADDING);
        }
        if (waiting) {
            with.add(JobDependencyStore.ADDING.formatted(inBatch ? "CROSS JOIN batch" : ""));
        }
        String insertion = """
                INSERT INTO ~.forge_jobs
                    (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata%s, body_bytes, job_group%s%s)
                SELECT d.id, d.name, d.payload::jsonb, d.priority, d.capability,
                       greatest(?, clock_timestamp() + ? * interval '1 millisecond'), d.max_attempts, ?::jsonb%s, d.bytes, d.job_group%s%s
                FROM unnest(?::uuid[], ?::text[], ?::text[], ?::int[], ?::text[], ?::int[], ?::int[], ?::text[])
                    AS d (id, name, payload, priority, capability, max_attempts, bytes, job_group) %s
                """.formatted(
                        tagged ? ", tags" : "",
                        inBatch ? ", batch_id" : "",
                        waiting ? ", waits_for" : "",
                        tagged ? ", ?::text[]" : "",
                        inBatch ? ", batch.id" : "",
                        waiting ? ", d.id" : "",
                        inBatch ? "CROSS JOIN batch" : "");
        if (tagged) {
            with.add("job AS (%s RETURNING id, tags)".formatted(insertion));
        }
        return (with.isEmpty() ? "" : "WITH " + String.join(", ", with)) + (tagged ? INSERT_TAGS : insertion);
    }

    private static void bindAll(PreparedStatement statement, List<NewJob> jobs, int from) throws SQLException {
        Connection connection = statement.getConnection();
        NewJob first = jobs.get(0);
        int next = from;
        statement.setObject(
                next++, first.at == null ? null : first.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE);
        statement.setLong(next++, first.delayMillis);
        statement.setString(next++, first.metadata);
        if (!first.tags.isEmpty()) {
            statement.setArray(next++, connection.createArrayOf("text", first.tags.toArray()));
        }
        statement.setArray(next++, SqlArrays.of(connection, "uuid", jobs, NewJob::id));
        statement.setArray(next++, SqlArrays.of(connection, "text", jobs, NewJob::name));
        statement.setArray(next++, SqlArrays.of(connection, "text", jobs, NewJob::payload));
        statement.setArray(next++, SqlArrays.of(connection, "int4", jobs, NewJob::priority));
        statement.setArray(next++, SqlArrays.of(connection, "text", jobs, NewJob::capability));
        statement.setArray(next++, SqlArrays.of(connection, "int4", jobs, NewJob::maxAttempts));
        statement.setArray(next++, SqlArrays.of(connection, "int4", jobs, NewJob::bytes));
        statement.setArray(next, SqlArrays.of(connection, "text", jobs, NewJob::group));
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
                        .formatted(job.name, key));
    }

    /**
     * Inserts a job with a key that no other job should have.
     *
     * @throws DuplicateKeyException if an active job has the key; a repetition would fail, too
     */
    public void insertWithOwnKey(NewJob job, String key) {
        UUID active = insertUnique(job, key, UniquePolicy.KEEP);
        if (!active.equals(job.id)) {
            String message =
                    "Job '%s' with the unique key '%s' exists already: %s. Cancel that job if it was enqueued by hand."
                            .formatted(job.name, key, active);
            throw new DuplicateKeyException(message, new SQLException(message, UNIQUE_VIOLATION));
        }
    }

    private @Nullable UUID insertOrFind(NewJob job, String key) {
        return tryInsert(job, key, null) ? job.id : active(job.name, key, "");
    }

    private @Nullable UUID replace(NewJob job, String key) {
        UUID replaced = overwrite(job, key, "waits_for IS NOT NULL");
        if (replaced == null) {
            replaced = overwrite(job, key, "waits_for IS NULL");
        }
        if (replaced != null || tryInsert(job, key, null)) {
            return replaced != null ? replaced : job.id;
        }
        // A job that is pending again is overwritten in the next iteration.
        UUID running = active(job.name, key, "AND waits_for IS NULL AND status <> 'pending'");
        return running != null && tryInsert(job, key, running) ? job.id : null;
    }

    private boolean tryInsert(NewJob job, String key, @Nullable UUID waitsFor) {
        return jdbc.update(
                        schema.sql(job.tags.isEmpty() ? INSERT_PLAIN_OR_NOT : INSERT_TAGGED_OR_NOT),
                        statement -> bind(statement, job, key, waitsFor))
                > 0;
    }

    private @Nullable UUID active(String name, String key, String condition) {
        return client.sql(schema.sql("""
                SELECT id FROM ~.forge_jobs WHERE name = ? AND unique_key = ? AND status IN %s %s
                ORDER BY waits_for NULLS FIRST LIMIT 1
                """.formatted(JobRows.ACTIVE, condition)))
                .params(name, key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional()
                .orElse(null);
    }

    // Waits for a concurrent claim of the row, and then does not find it pending.
    private @Nullable UUID overwrite(NewJob job, String key, String condition) {
        String tagging = """
                , tagged AS (INSERT INTO ~.forge_job_tags (tag, job_id)
                             SELECT u.tag, r.id FROM replaced r CROSS JOIN unnest(:tags::text[]) AS u (tag) ON CONFLICT DO NOTHING)""";
        return client.sql(schema.sql("""
                WITH replaced AS (UPDATE ~.forge_jobs
                SET payload = :payload::jsonb, priority = :priority, worker_capability = :capability,
                    scheduled_at = greatest(:at, clock_timestamp() + :delay * interval '1 millisecond'),
                    max_attempts = :max_attempts, metadata = :metadata::jsonb, body_bytes = :bytes, job_group = :group, tags = :tags,
                    attempts = 0, recoveries = 0, progress = NULL, checkpoint = NULL, checkpoint_bytes = NULL,
                    last_error = NULL, attempt_history = NULL
                WHERE name = :name AND unique_key = :key AND status = 'pending' AND %s
                RETURNING id)%s
                SELECT id FROM replaced
                """.formatted(condition, job.tags.isEmpty() ? "" : tagging)))
                .param("payload", job.payload)
                .param("priority", job.priority)
                .param("capability", job.capability)
                .param("at", job.at == null ? null : job.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("delay", job.delayMillis)
                .param("max_attempts", job.maxAttempts, Types.INTEGER)
                .param("metadata", job.metadata)
                .param("bytes", job.bytes())
                .param("group", job.group)
                .param("tags", job.tags.isEmpty() ? null : job.tags.toArray(String[]::new))
                .param("name", job.name)
                .param("key", key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional()
                .orElse(null);
    }

    private static void bind(PreparedStatement statement, NewJob job, @Nullable String key, @Nullable UUID waitsFor)
            throws SQLException {
        statement.setObject(1, job.id);
        statement.setString(2, job.name);
        statement.setString(3, job.payload);
        statement.setInt(4, job.priority);
        statement.setString(5, job.capability);
        statement.setObject(6, job.at == null ? null : job.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE);
        statement.setLong(7, job.delayMillis);
        statement.setObject(8, job.maxAttempts, Types.INTEGER);
        statement.setString(9, job.metadata);
        statement.setString(10, key);
        statement.setObject(11, waitsFor);
        statement.setInt(12, job.bytes());
        statement.setString(13, job.group);
        if (!job.tags.isEmpty()) {
            statement.setArray(14, statement.getConnection().createArrayOf("text", job.tags.toArray()));
        }
    }

    // Cancel, retry -----------------------------------------------------------------------------------------

    /** What changes in a job that is cancelled. */
    public static final String CANCELLED = """
            status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL,
            -- An attempt that has ended before did not take until now.
            started_at = CASE WHEN j.worker_id IS NOT NULL THEN j.started_at END""";

    /** What changes in a job that is retried. */
    static final String RESTARTED = """
            status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, finished_at = NULL,
            started_at = NULL, worker_id = NULL, retention = NULL,
            -- A callback waits for its batch again.
            waits_for = (
                SELECT b.id FROM ~.forge_job_batches b
                WHERE b.id = CASE WHEN j.metadata ->> 'forge.batch' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                                  THEN (j.metadata ->> 'forge.batch')::uuid END
                  AND CASE j.id WHEN b.on_failure THEN b.failed_at IS NULL WHEN b.on_end THEN b.ended_at IS NULL
                                WHEN b.on_success THEN b.succeeded_at IS NULL END)""";

    /**
     * A job that was cancelled.
     *
     * @param node the node that held it; null if none did
     * @param hasKey whether another job may have waited for its end
     * @param batch the batch that it belongs to; null: none
     */
    public record Cancelled(
            @Nullable UUID node, boolean hasKey, @Nullable UUID batch) {}

    /**
     * Cancels a job.
     *
     * @param reserved prefixes of names whose jobs stay as they are
     * @return empty if there is no such active job
     */
    public Optional<Cancelled> cancel(UUID id, List<String> reserved) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs j
                SET %s
                WHERE id = ? AND status IN %s AND %s
                RETURNING j.worker_id, j.unique_key IS NOT NULL, j.batch_id
                """.formatted(CANCELLED, JobRows.ACTIVE, NOT_RESERVED)))
                .params(id, reserved.toArray(String[]::new))
                .query((row, n) ->
                        new Cancelled(row.getObject(1, UUID.class), row.getBoolean(2), row.getObject(3, UUID.class)))
                .optional();
    }

    /**
     * What replaces the payload of a job that is retried.
     *
     * @param payload JSON
     * @param group the group of the job; null: none
     */
    public record Edit(String payload, @Nullable String group) {}

    // A checkpoint belongs to the payload that it was made for. Claims cope with an unknown size.
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
        return Boolean.TRUE.equals(jdbc.execute((ConnectionCallback<Boolean>) connection -> {
            // A concurrent enqueue of its key may violate the constraint; the caller's transaction must survive that.
            Savepoint before = connection.getAutoCommit() ? null : connection.setSavepoint();
            try (PreparedStatement statement = connection.prepareStatement(
                    schema.sql("""
                    UPDATE ~.forge_jobs j
                    SET %s%s
                    WHERE id = ? AND status IN ('failed', 'cancelled', 'abandoned') AND %s
                      AND NOT EXISTS (SELECT FROM ~.forge_jobs a WHERE a.name = j.name AND a.unique_key = j.unique_key
                                      AND a.waits_for IS NULL AND a.status IN ('pending', 'claimed', 'running'))
                    """.formatted(RESTARTED, edit == null ? "" : EDITED, NOT_RESERVED)))) {
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
                if (!UNIQUE_VIOLATION.equals(e.getSQLState())) {
                    throw e;
                }
                if (before != null) {
                    connection.rollback(before);
                }
                return false;
            }
        }));
    }
}

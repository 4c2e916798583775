// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.job.JobOptions;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Inserts jobs. {@link UniqueJobStore} inserts those with a unique key. */
public final class JobInsertStore {

    /** The largest size that {@code body_bytes} may have. */
    private static final int MOST_BYTES = 1_000_000_000;

    private final Tables tables;

    /**
     * Creates a store.
     *
     * @param source the data source of the application for calls that join its transactions, otherwise that of the cluster
     */
    public JobInsertStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

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

        /** Returns the queue that the job is claimed from. */
        public Queue queue() {
            return new Queue(name, capability == null ? "" : capability, priority, group != null);
        }

        /** Returns whether the job is due when it is inserted. */
        public boolean isDueAtOnce() {
            return delayMillis == 0 && at == null;
        }

        @Nullable
        OffsetDateTime dueAt() {
            return at == null ? null : at.atOffset(ZoneOffset.UTC);
        }

        /** Returns the approximate length that it adds to a statement. */
        long length() {
            return (long) payload.length() + metadata.length();
        }

        /** Returns how many bytes a claim of the job reads. */
        int bytes() {
            return (int) Math.min(MOST_BYTES, PrintedJson.bytes(payload) + PrintedJson.bytes(metadata));
        }
    }

    /**
     * Returns the first words of a statement that inserts jobs. A SELECT or VALUES of these columns follows.
     *
     * @param more further columns
     */
    public static String inserting(String... more) {
        return """
                INSERT INTO ~.forge_jobs
                    (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, body_bytes, job_group%s)
                """.formatted(Arrays.stream(more).map(column -> ", " + column).collect(Collectors.joining()));
    }

    /**
     * Returns a statement that inserts jobs {@code j} that carry workflow runs.
     *
     * @param columns further columns, each after a comma
     * @param select the values of id, name, scheduled_at and these columns, and the rest of a SELECT
     */
    public static String insertingCarrier(String columns, String select) {
        return "INSERT INTO ~.forge_jobs AS j (carries_run, id, name, scheduled_at%s) SELECT true, %s"
                .formatted(columns, select);
    }

    // Not now(): all jobs of one transaction would have the same time, and a mark could not distinguish them.
    private static final String VALUES = """
            VALUES (?, ?, ?::jsonb, ?, ?, greatest(?, clock_timestamp() + ? * interval '1 millisecond'), ?, ?::jsonb, ?, ?, ?, ?%s)
            """;

    /** Inserts a job in the caller's transaction. */
    public void insert(NewJob job) {
        insertWaiting(job, null);
    }

    private static final String ON_CONFLICT = " ON CONFLICT DO NOTHING";
    private static final String INSERT_PLAIN = inserting("unique_key", "waits_for") + VALUES.formatted("");
    private static final String INSERT_PLAIN_OR_NOT = INSERT_PLAIN + ON_CONFLICT;
    private static final String WITH_TAGS = inserting("unique_key", "waits_for", "tags") + VALUES.formatted(", ?");
    private static final String INSERT_TAGGED = tagged(WITH_TAGS);
    private static final String INSERT_TAGGED_OR_NOT = tagged(WITH_TAGS + ON_CONFLICT);

    /** Makes jobs findable by their tags. The number of rows that it inserts is that of the tags. */
    static final String INSERT_TAGS = """
            INSERT INTO ~.forge_job_tags (tag, job_id) SELECT t.tag, job.id FROM job CROSS JOIN unnest(job.tags::text[]) AS t (tag)
            """;

    private static String tagged(String insertion) {
        return "WITH job AS (%s RETURNING id, tags) %s".formatted(insertion, INSERT_TAGS);
    }

    /**
     * Inserts a job that waits for another job or for a batch, in the caller's transaction.
     *
     * @param waitsFor null: it does not wait
     */
    public void insertWaiting(NewJob job, @Nullable UUID waitsFor) {
        tables.update(
                job.tags.isEmpty() ? INSERT_PLAIN : INSERT_TAGGED, statement -> bind(statement, job, null, waitsFor));
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
                    return tables.update(sql, statement -> {
                                int next = 1;
                                if (batch != null) {
                                    statement.setObject(next++, batch);
                                    statement.setInt(next++, part.size());
                                }
                                if (waiting) {
                                    statement.setBoolean(next++, after.anyway());
                                    next = SqlArrays.bind(statement, next, "uuid", part, NewJob::id);
                                    next = SqlArrays.bind(statement, next, "uuid", List.copyOf(after.jobs()), id -> id);
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
            parts.addAll(JobRows.inParts(jobs.subList(from, Math.min(from + most, jobs.size())), NewJob::length));
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
        String insertion =
                inserting(Stream.of(tagged ? "tags" : "", inBatch ? "batch_id" : "", waiting ? "waits_for" : "")
                                .filter(column -> !column.isEmpty())
                                .toArray(String[]::new))
                        + """
                SELECT d.id, d.name, d.payload::jsonb, d.priority, d.capability,
                       greatest(?, clock_timestamp() + ? * interval '1 millisecond'), d.max_attempts, ?::jsonb, d.bytes, d.job_group%s%s%s
                FROM unnest(%s) AS d (%s) %s
                """.formatted(
                                        tagged ? ", ?::text[]" : "",
                                        inBatch ? ", batch.id" : "",
                                        waiting ? ", d.id" : "",
                                        COLUMNS,
                                        COLUMN_NAMES,
                                        inBatch ? "CROSS JOIN batch" : "");
        if (tagged) {
            with.add("job AS (%s RETURNING id, tags)".formatted(insertion));
        }
        return (with.isEmpty() ? "" : "WITH " + String.join(", ", with)) + (tagged ? INSERT_TAGS : insertion);
    }

    private static void bindAll(PreparedStatement statement, List<NewJob> jobs, int from) throws SQLException {
        NewJob first = jobs.get(0);
        int next = from;
        statement.setObject(next++, first.dueAt(), Types.TIMESTAMP_WITH_TIMEZONE);
        statement.setLong(next++, first.delayMillis);
        statement.setString(next++, first.metadata);
        if (!first.tags.isEmpty()) {
            statement.setArray(next++, statement.getConnection().createArrayOf("text", first.tags.toArray()));
        }
        bindColumns(statement, next, jobs);
    }

    /** The columns that {@link #bindColumns} binds, as the parameters of unnest. */
    static final String COLUMNS = "?::uuid[], ?::text[], ?::text[], ?::int[], ?::text[], ?::int[], ?::int[], ?::text[]";

    /** Their names. */
    static final String COLUMN_NAMES = "id, name, payload, priority, capability, max_attempts, bytes, job_group";

    /** Binds what may differ between jobs that one statement inserts; returns the number of the next parameter. */
    static int bindColumns(PreparedStatement statement, int from, List<NewJob> jobs) throws SQLException {
        int next = SqlArrays.bind(statement, from, "uuid", jobs, NewJob::id);
        next = SqlArrays.bind(statement, next, "text", jobs, NewJob::name);
        next = SqlArrays.bind(statement, next, "text", jobs, NewJob::payload);
        next = SqlArrays.bind(statement, next, "int4", jobs, NewJob::priority);
        next = SqlArrays.bind(statement, next, "text", jobs, NewJob::capability);
        next = SqlArrays.bind(statement, next, "int4", jobs, NewJob::maxAttempts);
        next = SqlArrays.bind(statement, next, "int4", jobs, NewJob::bytes);
        return SqlArrays.bind(statement, next, "text", jobs, NewJob::group);
    }

    /**
     * Inserts a job with a key; false if an active job has it.
     *
     * @param waitsFor the active job whose successor it is; null: none
     */
    boolean insertWithKey(NewJob job, String key, @Nullable UUID waitsFor) {
        return tables.update(
                        job.tags.isEmpty() ? INSERT_PLAIN_OR_NOT : INSERT_TAGGED_OR_NOT,
                        statement -> bind(statement, job, key, waitsFor))
                > 0;
    }

    private static void bind(PreparedStatement statement, NewJob job, @Nullable String key, @Nullable UUID waitsFor)
            throws SQLException {
        statement.setObject(1, job.id);
        statement.setString(2, job.name);
        int next = bindBody(statement, 3, job);
        statement.setString(next++, key);
        statement.setObject(next++, waitsFor);
        if (!job.tags.isEmpty()) {
            statement.setArray(next, statement.getConnection().createArrayOf("text", job.tags.toArray()));
        }
    }

    /** Binds the columns of {@link #inserting} after the name; returns the number of the next parameter. */
    static int bindBody(PreparedStatement statement, int first, NewJob job) throws SQLException {
        int next = first;
        statement.setString(next++, job.payload);
        statement.setInt(next++, job.priority);
        statement.setString(next++, job.capability);
        statement.setObject(next++, job.dueAt(), Types.TIMESTAMP_WITH_TIMEZONE);
        statement.setLong(next++, job.delayMillis);
        statement.setObject(next++, job.maxAttempts, Types.INTEGER);
        statement.setString(next++, job.metadata);
        statement.setInt(next++, job.bytes());
        statement.setString(next++, job.group);
        return next;
    }
}

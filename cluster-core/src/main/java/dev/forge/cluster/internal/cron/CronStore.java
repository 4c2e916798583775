// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobPriority;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Reads and changes the definitions of crons: the rows of {@code forge_crons}, and {@code forge_cron_memories}, which keeps
 * the progress of crons that were removed.
 */
public final class CronStore {

    private final Tables tables;
    private final TransactionOperations transaction;

    /** @param source the application's data source for changes that join its transactions, otherwise the node's own */
    CronStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /** Returns transactions on the same data source; they join one that is open. */
    TransactionOperations transaction() {
        return transaction;
    }

    /** Returns the database's current time, which moves on within a transaction. */
    Instant now() {
        return tables.sql("SELECT clock_timestamp()")
                .query((row, n) -> instant(row, 1))
                .single();
    }

    /**
     * The complete definition of a cron, with all defaults applied.
     *
     * @param handler the name of the job handler that runs each slot
     * @param misfire never {@link Misfire#DEFAULT}
     */
    public record Definition(
            String name,
            String handler,
            String expression,
            String zone,
            CronTarget target,
            @Nullable String capability,
            Misfire misfire,
            int catchUpLimit,
            Overlap overlap,
            long jitterMillis,
            RunOptions run) {}

    /**
     * The options of the jobs that a cron enqueues.
     *
     * @param maxAttempts null: as the handler declares
     * @param timeoutMillis null: as the handler declares
     * @param retentionMillis null: as the handler declares
     * @param group null: as the handler declares
     */
    public record RunOptions(
            @Nullable Integer maxAttempts,
            int priority,
            @Nullable Long timeoutMillis,
            @Nullable Long retentionMillis,
            @Nullable String group) {

        /** As the handler declares, with normal priority. */
        public static final RunOptions DEFAULTS = withPriority(JobPriority.NORMAL.value());

        /** Returns the options of a cron whose handler declares everything but the priority. */
        public static RunOptions withPriority(int priority) {
            return new RunOptions(null, priority, null, null, null);
        }
    }

    static final String COLUMNS =
            "name, handler, expression, zone, target, worker_capability, misfire, catch_up_limit, overlap, jitter_millis,"
                    + " max_attempts, priority, timeout_millis, retention_millis, job_group";
    static final String TYPES =
            "?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::int[], ?::text[], ?::bigint[],"
                    + " ?::int[], ?::int[], ?::bigint[], ?::bigint[], ?::text[]";
    static final String COLUMN_TYPES =
            "name text, handler text, expression text, zone text, target text, worker_capability text, misfire text,"
                    + " catch_up_limit int, overlap text, jitter_millis bigint, max_attempts int, priority int, timeout_millis bigint,"
                    + " retention_millis bigint, job_group text";

    /** Binds the columns of definitions as arrays; returns the index of the next parameter. */
    static int bind(PreparedStatement statement, int from, List<Definition> definitions) throws SQLException {
        int at = from;
        at = SqlArrays.bind(statement, at, "text", definitions, Definition::name);
        at = SqlArrays.bind(statement, at, "text", definitions, Definition::handler);
        at = SqlArrays.bind(statement, at, "text", definitions, Definition::expression);
        at = SqlArrays.bind(statement, at, "text", definitions, Definition::zone);
        at = SqlArrays.bind(statement, at, "text", definitions, d -> EnumText.hyphenated(d.target));
        at = SqlArrays.bind(statement, at, "text", definitions, Definition::capability);
        at = SqlArrays.bind(statement, at, "text", definitions, d -> EnumText.hyphenated(d.misfire));
        at = SqlArrays.bind(statement, at, "int4", definitions, Definition::catchUpLimit);
        at = SqlArrays.bind(statement, at, "text", definitions, d -> EnumText.hyphenated(d.overlap));
        at = SqlArrays.bind(statement, at, "int8", definitions, Definition::jitterMillis);
        at = SqlArrays.bind(statement, at, "int4", definitions, d -> d.run.maxAttempts);
        at = SqlArrays.bind(statement, at, "int4", definitions, d -> d.run.priority);
        at = SqlArrays.bind(statement, at, "int8", definitions, d -> d.run.timeoutMillis);
        at = SqlArrays.bind(statement, at, "int8", definitions, d -> d.run.retentionMillis);
        return SqlArrays.bind(statement, at, "text", definitions, d -> d.run.group);
    }

    /**
     * A row of {@code forge_crons}.
     *
     * @param next the first undecided slot; null if the cron does not fire
     * @param problem why the cron does not fire; null if no leader found a problem
     */
    record CronRow(
            Definition definition,
            boolean declared,
            boolean paused,
            @Nullable Instant next,
            @Nullable String problem) {

        /** Returns whether both definitions have the same slots. */
        boolean hasSameSlotsAs(Definition other) {
            return definition.expression.equals(other.expression) && definition.zone.equals(other.zone);
        }
    }

    private static final String ROW_COLUMNS = COLUMNS.replace("handler", "coalesce(handler, name) AS handler")
            + ", declared, paused, next_fire_at, problem";

    /** Returns all rows. */
    List<CronRow> rows() {
        return tables.sql("SELECT %s FROM ~.forge_crons".formatted(ROW_COLUMNS))
                .query((row, n) -> row(row))
                .list();
    }

    /** Locks and returns one row; waits for transactions that have locked it. */
    Optional<CronRow> lockRow(String name) {
        return tables.sql("SELECT %s FROM ~.forge_crons WHERE name = ? FOR UPDATE".formatted(ROW_COLUMNS))
                .param(name)
                .query((row, n) -> row(row))
                .optional();
    }

    /** Locks crons that have no next slot although their expression has slots: a leader could not parse them. */
    List<CronRow> lockStopped() {
        return tables.sql("""
                SELECT %s FROM ~.forge_crons WHERE next_fire_at IS NULL AND expression <> '-' FOR UPDATE SKIP LOCKED
                """.formatted(ROW_COLUMNS))
                .query((row, n) -> row(row))
                .list();
    }

    /** Locks and returns the crons among {@code names} that no other transaction has locked. */
    List<CronRow> lockAvailable(Collection<String> names) {
        return tables.sql("""
                SELECT %s FROM ~.forge_crons WHERE name = ANY (:names) ORDER BY name FOR UPDATE SKIP LOCKED
                """.formatted(ROW_COLUMNS))
                .param("names", names.toArray(String[]::new))
                .query((row, n) -> row(row))
                .list();
    }

    /** A definition and its first slot; the slot is null if the cron never fires. */
    record ScheduledDefinition(
            Definition definition, @Nullable Instant next) {}

    // A cron that returns keeps its last run, and its next slot too if its schedule is unchanged.
    private static final String INSERTED_COLUMNS = COLUMNS + ", next_fire_at, last_fire_at, last_job_id, declared";

    private static final String DECLARED_COLUMNS = "d." + COLUMNS.replace(", ", ", d.");

    private static final String TAKE_MEMORY = """
            WITH m AS (DELETE FROM ~.forge_cron_memories WHERE name = ANY (?::text[]) RETURNING *)
            """;

    /** Inserts or changes declared crons. A cron of the same name that was created at run time is left unchanged. */
    int put(List<ScheduledDefinition> crons) {
        return tables.update(
                TAKE_MEMORY + """
                INSERT INTO ~.forge_crons AS c (%s)
                SELECT %s, CASE WHEN m.expression = d.expression AND m.zone = d.zone
                                THEN coalesce(m.next_fire_at, d.next_fire_at) ELSE d.next_fire_at END,
                       m.last_fire_at, m.last_job_id, true
                FROM unnest(%s, ?::timestamptz[]) AS d (%s, next_fire_at)
                LEFT JOIN m ON m.name = d.name
                ON CONFLICT (name) DO UPDATE
                SET handler = excluded.handler, expression = excluded.expression, zone = excluded.zone,
                    target = excluded.target, worker_capability = excluded.worker_capability,
                    misfire = excluded.misfire, catch_up_limit = excluded.catch_up_limit, overlap = excluded.overlap,
                    jitter_millis = excluded.jitter_millis, max_attempts = excluded.max_attempts,
                    priority = excluded.priority, timeout_millis = excluded.timeout_millis,
                    retention_millis = excluded.retention_millis, job_group = excluded.job_group,
                    next_fire_at = excluded.next_fire_at, problem = NULL, updated_at = clock_timestamp()
                WHERE c.declared
                """.formatted(INSERTED_COLUMNS, DECLARED_COLUMNS, TYPES, COLUMNS), statement -> {
                    int at = SqlArrays.bind(statement, 1, "text", crons, scheduled -> scheduled.definition.name);
                    at = bind(
                            statement,
                            at,
                            crons.stream().map(ScheduledDefinition::definition).toList());
                    SqlArrays.bind(statement, at, "timestamptz", crons, scheduled -> offset(scheduled.next));
                });
    }

    // For a later cron of the same name.
    private static final String SAVE_MEMORY = """
            INSERT INTO ~.forge_cron_memories (name, expression, zone, next_fire_at, last_fire_at, last_job_id)
            SELECT name, expression, zone, CASE WHEN declared THEN next_fire_at END, last_fire_at, last_job_id FROM gone
            ON CONFLICT (name) DO UPDATE
            SET expression = excluded.expression, zone = excluded.zone, next_fire_at = excluded.next_fire_at,
                last_fire_at = excluded.last_fire_at, last_job_id = excluded.last_job_id, removed_at = excluded.removed_at
            """;

    /**
     * Deletes declared crons and keeps their progress in {@code forge_cron_memories}. Paused crons stay, so that a pause
     * cannot end unnoticed. Crons that another transaction has locked are left to the next call.
     */
    int remove(Collection<String> names) {
        return tables.sql("""
                WITH gone AS (
                    DELETE FROM ~.forge_crons WHERE name = ANY (ARRAY(
                        SELECT name FROM ~.forge_crons WHERE name = ANY (:names) AND declared AND NOT paused
                        ORDER BY name FOR UPDATE SKIP LOCKED))
                    RETURNING *)
                """ + SAVE_MEMORY)
                .param("names", names.toArray(String[]::new))
                .update();
    }

    /** Creates a cron at run time; returns false if the name is taken. */
    boolean insert(ScheduledDefinition cron, String payload) {
        return tables.update(
                        TAKE_MEMORY + """
                INSERT INTO ~.forge_crons (%s, payload)
                SELECT %s, d.next_fire_at, m.last_fire_at, m.last_job_id, false, ?::jsonb
                FROM unnest(%s, ?::timestamptz[]) AS d (%s, next_fire_at)
                LEFT JOIN m ON m.name = d.name
                ON CONFLICT DO NOTHING
                """.formatted(INSERTED_COLUMNS, DECLARED_COLUMNS, TYPES, COLUMNS), statement -> {
                            int at = SqlArrays.bind(
                                    statement, 1, "text", List.of(cron), scheduled -> scheduled.definition.name);
                            statement.setString(at, payload);
                            at = bind(statement, at + 1, List.of(cron.definition));
                            SqlArrays.bind(
                                    statement, at, "timestamptz", List.of(cron), scheduled -> offset(scheduled.next));
                        })
                == 1;
    }

    /** Changes a cron that was created at run time; returns false if there is none of that name. */
    boolean update(ScheduledDefinition cron, String payload) {
        return tables.update("""
                UPDATE ~.forge_crons c
                SET (%s, next_fire_at) = (SELECT d.* FROM unnest(%s, ?::timestamptz[]) AS d),
                    payload = ?::jsonb, problem = NULL, updated_at = clock_timestamp()
                WHERE c.name = ? AND NOT c.declared
                """.formatted(COLUMNS, TYPES), statement -> {
                    int at = bind(statement, 1, List.of(cron.definition));
                    at = SqlArrays.bind(
                            statement, at, "timestamptz", List.of(cron), scheduled -> offset(scheduled.next));
                    statement.setString(at, payload);
                    statement.setString(at + 1, cron.definition.name);
                })
                == 1;
    }

    /** Deletes a cron that was created at run time; returns false if there is none of that name. */
    boolean delete(String name) {
        return tables.sql("""
                        WITH gone AS (DELETE FROM ~.forge_crons WHERE name = ? AND NOT declared RETURNING *)
                        """ + SAVE_MEMORY).param(name).update() == 1;
    }

    /** Pauses or resumes a cron; returns false if there is no such cron or nothing changes. */
    boolean pause(String name, boolean paused) {
        return tables.sql(Schema.BY_NODE + """
                        UPDATE ~.forge_crons SET paused = :paused, updated_at = clock_timestamp()
                        WHERE name = :name AND paused <> :paused
                        """)
                        .param("paused", paused)
                        .param("name", name)
                        .update()
                == 1;
    }

    static CronRow row(ResultSet row) throws SQLException {
        return new CronRow(
                definition(row),
                row.getBoolean("declared"),
                row.getBoolean("paused"),
                time(row, 18),
                row.getString("problem"));
    }

    static Definition definition(ResultSet row) throws SQLException {
        return new Definition(
                row.getString(1),
                row.getString(2),
                row.getString(3),
                row.getString(4),
                EnumText.parse(CronTarget.class, row.getString(5)),
                row.getString(6),
                EnumText.parse(Misfire.class, row.getString(7)),
                row.getInt(8),
                EnumText.parse(Overlap.class, row.getString(9)),
                row.getLong(10),
                new RunOptions(
                        row.getObject(11, Integer.class),
                        // A set of an earlier build has no priorities.
                        Objects.requireNonNullElse(row.getObject(12, Integer.class), RunOptions.DEFAULTS.priority),
                        row.getObject(13, Long.class),
                        row.getObject(14, Long.class),
                        row.getString(15)));
    }

    static @Nullable OffsetDateTime offset(@Nullable Instant time) {
        return time == null ? null : time.atOffset(ZoneOffset.UTC);
    }

    static @Nullable Instant time(ResultSet row, int column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }

    static Instant instant(ResultSet row, int column) throws SQLException {
        return Objects.requireNonNull(time(row, column));
    }
}

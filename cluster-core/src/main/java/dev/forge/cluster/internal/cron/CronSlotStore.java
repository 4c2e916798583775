// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.cron.CronStore.COLUMNS;
import static dev.forge.cluster.internal.cron.CronStore.definition;
import static dev.forge.cluster.internal.cron.CronStore.instant;
import static dev.forge.cluster.internal.cron.CronStore.offset;
import static dev.forge.cluster.internal.cron.CronStore.time;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.runtime.EnumText;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Reads due slots and records decisions about them in the ledger {@code forge_cron_runs}.
 *
 * <p><b>Exactly once.</b> A slot is decided by its row in the ledger, whose key is (cron, slot). The job of the slot is
 * inserted by the same transaction, and only if that transaction inserted the ledger row. The leader's transactions also
 * end with its fence.
 */
final class CronSlotStore {

    private final Tables tables;

    CronSlotStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** A handler, and the kind of node that must have it. */
    record RequiredHandler(CronTarget target, String name) {}

    /**
     * Crons that are skipped for now although they may have due slots.
     *
     * @param names crons whose last attempt to fire failed
     * @param handlers handlers that no live node has; a paused cron needs no handler and is not excluded by them
     */
    record ExcludedCrons(Set<String> names, Set<RequiredHandler> handlers) {}

    private static final String NOT_EXCLUDED = """
            c.name <> ALL (:names)
                AND (c.paused OR c.target || ' ' || coalesce(c.handler, c.name) <> ALL (:handlers))""";

    private JdbcClient.StatementSpec excluding(ExcludedCrons excluded, String sql) {
        return tables.sql(sql.formatted(NOT_EXCLUDED))
                .param("names", excluded.names.toArray(String[]::new))
                .param(
                        "handlers",
                        excluded.handlers.stream()
                                .map(handler -> EnumText.hyphenated(handler.target) + " " + handler.name)
                                .toArray(String[]::new));
    }

    /** Returns the time until the next slot of any cron, negative if it has passed; empty if there is none. */
    Optional<Duration> untilNext(ExcludedCrons excluded) {
        return excluding(excluded, """
                SELECT (extract(epoch FROM min(c.next_fire_at) - clock_timestamp()) * 1000)::bigint
                FROM ~.forge_crons c WHERE c.next_fire_at < clock_timestamp() + interval '1 day' AND %s
                """)
                .query((row, n) ->
                        Optional.ofNullable(row.getObject(1, Long.class)).map(Duration::ofMillis))
                .single();
    }

    /**
     * A cron that has undecided slots.
     *
     * @param next the first undecided slot
     * @param lastSlot the last slot that ran
     * @param lastJob the previous run, finished or not; see {@link CronJobStore#unfinishedRuns}
     * @param now the database time that decides which slots are due
     * @param payloadBytes the size of the payload of each run
     */
    record DueCron(
            Definition definition,
            boolean paused,
            Instant next,
            @Nullable Instant lastSlot,
            @Nullable UUID lastJob,
            Instant now,
            int payloadBytes) {

        /** Returns the same cron as of another time. */
        DueCron at(Instant time) {
            return new DueCron(definition, paused, next, lastSlot, lastJob, time, payloadBytes);
        }
    }

    /** The last cron of a page. */
    record PagePosition(Instant next, String name) {
        /** The position before the first cron. */
        static final PagePosition FIRST = new PagePosition(Instant.EPOCH, "");
    }

    private static final String DUE = "SELECT "
            + COLUMNS.replace("handler", "coalesce(handler, name) AS handler")
            + ", c.paused, coalesce(c.next_fire_at, now()), c.last_fire_at, c.last_job_id, now(), pg_column_size(c.payload)"
            + " FROM ~.forge_crons c ";

    /** Locks and returns crons with due slots after a position; skips crons that another transaction has locked. */
    List<DueCron> due(PagePosition after, int limit, ExcludedCrons excluded) {
        return excluding(excluded, DUE + """
                WHERE c.next_fire_at <= now() AND (c.next_fire_at, c.name) > (:next, :name) AND %s
                ORDER BY c.next_fire_at, c.name LIMIT :limit FOR UPDATE SKIP LOCKED
                """)
                .param("next", offset(after.next), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("name", after.name)
                .param("limit", limit)
                .query((row, n) -> due(row))
                .list();
    }

    /** Locks and returns the cron if it has due slots and no other transaction has locked it. */
    List<DueCron> due(String name) {
        return tables.sql(DUE + "WHERE c.next_fire_at <= now() AND c.name = ? FOR UPDATE SKIP LOCKED")
                .param(name)
                .query((row, n) -> due(row))
                .list();
    }

    /** Returns the names of crons with due slots after a position, without locking them. */
    List<String> dueNames(PagePosition after, int limit, ExcludedCrons excluded) {
        return excluding(excluded, """
                SELECT c.name FROM ~.forge_crons c
                WHERE c.next_fire_at <= now() AND (c.next_fire_at, c.name) > (:next, :name) AND %s
                ORDER BY c.next_fire_at, c.name LIMIT :limit
                """)
                .param("next", offset(after.next), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("name", after.name)
                .param("limit", limit)
                .query((row, n) -> row.getString(1))
                .list();
    }

    private static DueCron due(ResultSet row) throws SQLException {
        return new DueCron(
                definition(row),
                row.getBoolean(16),
                instant(row, 17),
                time(row, 18),
                row.getObject(19, UUID.class),
                instant(row, 20),
                row.getInt(21));
    }

    /** Locks and returns the cron, due or not; waits for transactions that have locked it. */
    Optional<DueCron> lock(String name) {
        return tables.sql(DUE + "WHERE c.name = ? FOR UPDATE")
                .param(name)
                .query((row, n) -> due(row))
                .optional();
    }

    /**
     * The decision about a slot.
     *
     * @param job the run; null if the slot does not run
     * @param capability the capability that a node must offer to run it
     * @param previous the slot that ran before
     */
    record DecidedSlot(
            String cron,
            Instant slot,
            CronRun.Outcome outcome,
            @Nullable String reason,
            @Nullable UUID job,
            @Nullable String capability,
            long delayMillis,
            @Nullable Instant previous) {}

    /** Writes decisions into the ledger; returns those whose slot was not in it yet. */
    List<DecidedSlot> record(List<DecidedSlot> slots, @Nullable Long term) {
        record Key(String cron, Instant slot) {}
        Set<Key> fresh = new HashSet<>(tables.query(
                """
                            INSERT INTO ~.forge_cron_runs (cron, slot, outcome, reason, job_id, term, fired_at)
                            SELECT d.cron, d.slot, d.outcome, d.reason, d.job_id, ?, clock_timestamp()
                            FROM unnest(?::text[], ?::timestamptz[], ?::text[], ?::text[], ?::uuid[])
                                AS d (cron, slot, outcome, reason, job_id)
                            ON CONFLICT DO NOTHING
                            RETURNING cron, slot
                            """,
                statement -> {
                    statement.setObject(1, term, Types.BIGINT);
                    int at = 2;
                    at = SqlArrays.bind(statement, at, "text", slots, DecidedSlot::cron);
                    at = SqlArrays.bind(statement, at, "timestamptz", slots, slot -> offset(slot.slot));
                    at = SqlArrays.bind(statement, at, "text", slots, slot -> EnumText.hyphenated(slot.outcome));
                    at = SqlArrays.bind(statement, at, "text", slots, DecidedSlot::reason);
                    SqlArrays.bind(statement, at, "uuid", slots, DecidedSlot::job);
                },
                (row, n) -> new Key(row.getString(1), instant(row, 2))));
        return slots.stream()
                .filter(slot -> fresh.contains(new Key(slot.cron, slot.slot)))
                .toList();
    }

    /** Enqueues the jobs of slots that run. */
    void enqueue(List<DecidedSlot> runs, @Nullable Long term) {
        tables.update(
                JobInsertStore.inserting()
                        + """
                SELECT d.job_id, coalesce(c.handler, c.name), c.payload, c.priority, d.capability,
                       clock_timestamp() + d.delay * interval '1 millisecond', c.max_attempts,
                       jsonb_strip_nulls(jsonb_build_object(
                           'cron', c.name, 'slot', %1$s, 'firedAt', %2$s, 'previousSlot', %3$s, 'term', ?::text,
                           '%4$s', c.timeout_millis::text, '%5$s', c.retention_millis::text)),
                       -- With room for the metadata. A large payload is measured when it is claimed.
                       CASE WHEN pg_column_size(c.payload) <= 1000 THEN octet_length(c.payload::text) + 1000 END, c.job_group
                FROM unnest(?::text[], ?::timestamptz[], ?::uuid[], ?::text[], ?::bigint[], ?::timestamptz[])
                    AS d (cron, slot, job_id, capability, delay, previous)
                JOIN ~.forge_crons c ON c.name = d.cron
                """.formatted(
                                        iso("d.slot"),
                                        iso("clock_timestamp()"),
                                        iso("d.previous"),
                                        JobHandler.Limits.TIMEOUT_KEY,
                                        JobHandler.Limits.RETENTION_KEY),
                statement -> {
                    statement.setString(1, term == null ? null : term.toString());
                    int at = 2;
                    at = SqlArrays.bind(statement, at, "text", runs, DecidedSlot::cron);
                    at = SqlArrays.bind(statement, at, "timestamptz", runs, slot -> offset(slot.slot));
                    at = SqlArrays.bind(statement, at, "uuid", runs, DecidedSlot::job);
                    at = SqlArrays.bind(statement, at, "text", runs, DecidedSlot::capability);
                    at = SqlArrays.bind(statement, at, "int8", runs, DecidedSlot::delayMillis);
                    SqlArrays.bind(statement, at, "timestamptz", runs, slot -> offset(slot.previous));
                });
    }

    private static String iso(String expression) {
        return "to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')".formatted(expression);
    }

    /**
     * The progress of a cron.
     *
     * @param next the first undecided slot; null if the cron does not fire any more
     * @param lastSlot the last slot that ran; null leaves the former value
     * @param lastJob the run of that slot; null leaves the former value
     * @param problem why the cron does not fire any more; null if it does
     */
    record CronAdvance(
            String name,
            @Nullable Instant next,
            @Nullable Instant lastSlot,
            @Nullable UUID lastJob,
            @Nullable String problem) {}

    /** Moves crons past the slots that were decided. */
    void advance(List<CronAdvance> crons) {
        tables.update("""
                UPDATE ~.forge_crons c
                SET next_fire_at = d.next, last_fire_at = coalesce(d.last_slot, c.last_fire_at),
                    last_job_id = coalesce(d.last_job, c.last_job_id), problem = d.problem
                FROM unnest(?::text[], ?::timestamptz[], ?::timestamptz[], ?::uuid[], ?::text[])
                    AS d (name, next, last_slot, last_job, problem)
                WHERE c.name = d.name
                """, statement -> {
            int at = 1;
            at = SqlArrays.bind(statement, at, "text", crons, CronAdvance::name);
            at = SqlArrays.bind(statement, at, "timestamptz", crons, cron -> offset(cron.next));
            at = SqlArrays.bind(statement, at, "timestamptz", crons, cron -> offset(cron.lastSlot));
            at = SqlArrays.bind(statement, at, "uuid", crons, CronAdvance::lastJob);
            SqlArrays.bind(statement, at, "text", crons, CronAdvance::problem);
        });
    }

    /** Stores why a cron could not be fired. */
    void recordProblem(String name, String problem) {
        tables.sql("UPDATE ~.forge_crons SET problem = ? WHERE name = ?")
                .params(problem, name)
                .update();
    }

    /** Makes a triggered run the latest run of the cron. */
    void recordTriggeredRun(String name, UUID job) {
        tables.sql("UPDATE ~.forge_crons SET last_job_id = ? WHERE name = ?")
                .params(job, name)
                .update();
    }

    /** Deletes up to {@code limit} ledger rows that are older than the retention; returns how many. */
    int purge(Duration retention, int limit) {
        // Not clock_timestamp(): an index cannot be searched for a value that changes during the search.
        return tables.sql("""
                DELETE FROM ~.forge_cron_runs WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM ~.forge_cron_runs
                    WHERE fired_at < statement_timestamp() - :millis * interval '1 millisecond'
                    ORDER BY fired_at LIMIT :limit))
                """)
                .param("millis", retention.toMillis())
                .param("limit", limit)
                .update();
    }

    /** Which kinds of live nodes have a handler. */
    record HandlerAvailability(boolean onSchedulers, boolean onWorkers) {

        /** Returns whether one of those nodes may run a cron of that target. */
        boolean mayRun(CronTarget target) {
            return onWorkers || (onSchedulers && target == CronTarget.LEADER);
        }
    }

    static final String ACCEPTS_RUNS =
            "n.status NOT IN ('dead', 'draining') AND coalesce(n.info ->> 'mode', 'auto') <> 'observer'";

    /** Returns the handlers of all live nodes that accept runs. */
    Map<String, HandlerAvailability> availableHandlers() {
        return tables
                .sql("""
                SELECT h.name, bool_or('scheduler' = ANY (n.roles)), bool_or('worker' = ANY (n.roles))
                FROM ~.forge_nodes n, unnest(n.handlers) AS h (name)
                WHERE %s
                GROUP BY h.name
                """.formatted(ACCEPTS_RUNS))
                .query((row, n) ->
                        Map.entry(row.getString(1), new HandlerAvailability(row.getBoolean(2), row.getBoolean(3))))
                .list()
                .stream()
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }
}

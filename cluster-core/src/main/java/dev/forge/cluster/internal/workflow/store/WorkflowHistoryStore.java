// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.database.connection.DedicatedConnection;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.RowCallbackHandler;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads runs with their history, and records steps, for the node that holds the claim of the run's job. */
public final class WorkflowHistoryStore {

    /** The right to write for a run: the claim of the job that carries it. */
    public record RunClaim(ClaimKey key, UUID node) {

        public UUID run() {
            return key.id();
        }
    }

    /** Limits how long a transaction of a node that was cut off keeps its rows locked. */
    static final String IDLE_LIMIT = "set_config('idle_in_transaction_session_timeout', '5s', true)";

    /**
     * Limits how long a statement of an execution waits for a run that another transaction has locked; part of its FROM clause.
     * The execution holds a slot and a connection of the application meanwhile: an operator who changes many runs and leaves the
     * transaction open would stop all jobs. Part of the statement, because a transaction pooler does not keep the settings of a
     * session.
     */
    static final String LOCK_WAIT = "set_config('lock_timeout', '200', true) AS patience";

    /** Whether job {@code j} is the claim that {@link #bindClaim} has bound. */
    static final String CLAIM_HELD =
            "j.id = :run AND j.claim_epoch = :epoch AND j.worker_id IS NOT DISTINCT FROM :node AND j.status IN "
                    + JobRows.HELD;

    /** Larger payloads of signals are read when the run takes the signal: it may never do so. */
    static final int SMALL_SIGNAL_BYTES = 1_000;

    private final Tables tables;
    private final CallerTransaction transaction;

    public WorkflowHistoryStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transaction = new CallerTransaction(source);
    }

    /** Returns whether statements of this store are part of a transaction that is active on this thread. */
    public boolean joinsTransaction() {
        return transaction.isActive();
    }

    /** Makes the active transaction READ COMMITTED, if statements of this store are part of it. */
    public void makeReadCommitted() {
        if (joinsTransaction()) {
            tables.sql(DedicatedConnection.READ_COMMITTED).update();
        }
    }

    // Reading -----------------------------------------------------------------------------------------------

    /**
     * A run with its recorded history, as one statement has read it.
     *
     * @param compensating whether the run compensates its completed steps
     * @param cancelled whether somebody has cancelled it
     * @param input JSON
     * @param readAt by the clock of the database
     * @param wakeSeq how many signals it has been sent
     * @param steps by their positions
     * @param signals those that are not consumed, oldest first
     */
    public record RecordedRun(
            WorkflowStatus status,
            boolean compensating,
            boolean cancelled,
            @Nullable UUID parent,
            @Nullable String input,
            Instant readAt,
            long wakeSeq,
            Map<Integer, StepRow> steps,
            List<Signal> signals) {

        /**
         * A signal that is not consumed yet.
         *
         * @param payload JSON
         * @param isPayloadRead whether the payload was read with the run; otherwise {@link WorkflowSignalStore#payload} reads it
         */
        public record Signal(UUID id, String name, @Nullable String payload, boolean isPayloadRead) {}
    }

    /**
     * Reads a run, and marks it as running if it was waiting. One statement: the signals that it returns are those that its
     * {@code wakeSeq} counts.
     */
    public Optional<RecordedRun> load(RunClaim claim) {
        var rows = new RecordedRuns();
        bindClaim(tables.sql("""
                WITH woken AS (
                    UPDATE ~.forge_workflow_runs r
                    SET status = CASE WHEN r.unwinding THEN 'compensating' ELSE 'running' END, awaits = NULL,
                        updated_at = clock_timestamp()
                    FROM %s CROSS JOIN ~.forge_jobs j
                    WHERE r.id = :run AND r.status IN ('waiting', 'blocked_missing_version') AND %s)
                """.formatted(LOCK_WAIT, CLAIM_HELD) + selectRuns("= :run")), claim)
                .query(rows);
        return Optional.ofNullable(rows.find(claim.run()));
    }

    /** Returns the SELECT of {@link RecordedRuns} for the runs whose id fulfils a condition. */
    static String selectRuns(String idCondition) {
        return """
                SELECT 'run' AS what, r.id AS run, 0 AS position, '' AS name, '' AS kind, r.status, 0 AS attempts,
                       r.input::text AS payload, NULL AS error, clock_timestamp() AS at, r.parent_id AS ref,
                       0 AS compensations, r.wake_seq, r.unwinding, r.resolution_reason IS NOT NULL AS cancelled,
                       NULL::int AS beside, true AS read
                FROM ~.forge_workflow_runs r WHERE r.id %1$s
                UNION ALL
                SELECT 'step', s.run_id, s.position, s.name, s.kind, s.status, s.attempts, s.result::text, s.last_error,
                       s.wake_at, s.ref, s.compensation_attempts, 0, false, false, s.beside, true
                FROM ~.forge_workflow_steps s WHERE s.run_id %1$s
                UNION ALL
                (SELECT 'signal', g.run_id, 0, g.name, '', '', 0, CASE WHEN g.payload_bytes <= %2$d THEN g.payload::text END, NULL,
                        NULL, g.id, 0, 0, false, false, NULL,
                        g.payload IS NULL OR g.payload_bytes IS NOT NULL AND g.payload_bytes <= %2$d
                 FROM ~.forge_workflow_signals g WHERE g.run_id %1$s ORDER BY g.created_at, g.id)
                """.formatted(idCondition, SMALL_SIGNAL_BYTES);
    }

    /** Assembles runs from the rows of {@link #selectRuns}. */
    static final class RecordedRuns implements RowCallbackHandler {

        private final Map<UUID, RecordedRun> runs = new HashMap<>();
        private final Map<UUID, Map<Integer, StepRow>> stepsByRun = new HashMap<>();
        private final Map<UUID, List<RecordedRun.Signal>> signalsByRun = new HashMap<>();

        @Nullable
        RecordedRun find(UUID run) {
            return runs.get(run);
        }

        @Override
        public void processRow(ResultSet row) throws SQLException {
            UUID run = row.getObject("run", UUID.class);
            Map<Integer, StepRow> steps = stepsByRun.computeIfAbsent(run, id -> new HashMap<>());
            List<RecordedRun.Signal> signals = signalsByRun.computeIfAbsent(run, id -> new ArrayList<>());
            switch (row.getString("what")) {
                case "run" ->
                    runs.put(
                            run,
                            new RecordedRun(
                                    EnumText.parse(WorkflowStatus.class, row.getString("status")),
                                    row.getBoolean("unwinding"),
                                    row.getBoolean("cancelled"),
                                    row.getObject("ref", UUID.class),
                                    row.getString("payload"),
                                    Objects.requireNonNull(instant(row, "at")),
                                    row.getLong("wake_seq"),
                                    steps,
                                    signals));
                case "step" -> steps.put(row.getInt("position"), step(row));
                default ->
                    signals.add(new RecordedRun.Signal(
                            row.getObject("ref", UUID.class),
                            row.getString("name"),
                            row.getString("payload"),
                            row.getBoolean("read")));
            }
        }
    }

    private static StepRow step(ResultSet row) throws SQLException {
        return new StepRow(
                row.getInt("position"),
                row.getString("name"),
                row.getString("kind"),
                row.getString("status"),
                row.getInt("attempts"),
                row.getString("payload"),
                row.getString("error"),
                instant(row, "at"),
                row.getObject("ref", UUID.class),
                row.getInt("compensations"),
                null,
                row.getObject("beside", Integer.class));
    }

    static @Nullable Instant instant(ResultSet row, String column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }

    // Recording ---------------------------------------------------------------------------------------------

    /** The result of a write that an execution makes for its run. */
    public enum WriteResult {
        /** The rows were written. */
        WRITTEN,
        /** The rows were written, but somebody has cancelled the run meanwhile. */
        CANCELLED,
        /** A step was not written: another outcome of its attempt was recorded before. */
        SUPERSEDED,
        /** Nothing was written: this node does not hold the claim of the run's job any more. */
        CLAIM_LOST;

        static WriteResult of(boolean allStepsWritten, boolean compensating) {
            return !allStepsWritten ? SUPERSEDED : compensating ? CANCELLED : WRITTEN;
        }
    }

    /**
     * Records steps and consumes a signal, in the active transaction or else at once. Whether rows of kind step were written
     * decides the result: a node that leaves may have counted the attempt already ({@link WriteResult#SUPERSEDED}). Rows of other
     * kinds only repeat what is recorded, if anything is.
     */
    public WriteResult record(RunClaim claim, List<StepRow> rows, @Nullable UUID signal) {
        return withRows(tables.sql(RECORD), claim, rows)
                .param("signal", signal, Types.OTHER)
                .query((row, n) -> WriteResult.of(row.getLong(1) == countSteps(rows), row.getBoolean(2)))
                .optional()
                .orElse(WriteResult.CLAIM_LOST);
    }

    static long countSteps(List<StepRow> rows) {
        return rows.stream().filter(row -> row.kind().equals("step")).count();
    }

    /** A row and the run that it belongs to. */
    record RunRow(UUID run, StepRow row) {}

    /** The entry of {@code attempt_history} for row {@code d}, an attempt that failed. */
    private static final String FAILED_ATTEMPT = """
            jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
                'attempt', CASE WHEN d.compensations > 0 THEN d.compensations ELSE d.attempts END,
                'undoing', nullif(d.compensations > 0, false), 'millis', CASE WHEN d.compensations = 0 THEN d.ran END,
                'endedAt', date_trunc('milliseconds', clock_timestamp()), 'error', left(d.error, %d))))""".formatted(JobRows.LONGEST_HISTORY_ERROR);

    private static final String RECORD = """
            WITH held AS MATERIALIZED (
                SELECT j.id FROM ~.forge_jobs j WHERE %s FOR SHARE),
            taken AS (
                DELETE FROM ~.forge_workflow_signals g USING held WHERE g.id = :signal),
            saved AS (%s)
            SELECT (SELECT count(*) FROM saved WHERE kind = 'step'), r.unwinding, %s
            FROM held JOIN ~.forge_workflow_runs r ON r.id = held.id
            """.formatted(CLAIM_HELD, upsertSteps("held"), IDLE_LIMIT);

    /**
     * Returns the statement that records the rows of {@link #bindRows} and returns their runs and kinds. An outcome that is
     * recorded is never overwritten by an execution that does not know it: only rows that wait or are to be retried change, and
     * completed ones with the next attempt of their compensation.
     *
     * @param runs the common table expression that selects the ids of the runs
     */
    static String upsertSteps(String runs) {
        return """
                INSERT INTO ~.forge_workflow_steps AS s
                    (run_id, position, name, kind, status, attempts, result, last_error, wake_at, ref,
                     compensation_attempts, beside, started_at, finished_at, result_bytes, attempt_history,
                     compensation_started_at, compensated_at)
                SELECT o.id, d.position, d.name, d.kind, d.status, d.attempts, d.result::jsonb, d.error, d.wake_at, d.ref,
                       d.compensations, d.beside, clock_timestamp() - coalesce(d.ran, 0) * interval '1 millisecond',
                       CASE WHEN d.status NOT IN ('waiting', 'retrying') THEN clock_timestamp() END, d.bytes,
                       CASE WHEN d.error IS NOT NULL AND d.kind = 'step' THEN %2$s END,
                       CASE WHEN d.compensations > 0 THEN clock_timestamp() - coalesce(d.ran, 0) * interval '1 millisecond' END,
                       CASE WHEN d.status IN ('compensated', 'compensation_failed') THEN clock_timestamp() END
                FROM %1$s o JOIN unnest((SELECT :rows::uuid[]), :positions::int[], :names::text[], :kinds::text[],
                    :statuses::text[], :attempts::int[], :results::text[], :errors::text[], :wakes::timestamptz[],
                    :refs::uuid[], :compensations::int[], :rans::bigint[], :besides::int[], :bytes::int[])
                    AS d (run, position, name, kind, status, attempts, result, error, wake_at, ref, compensations, ran, beside,
                          bytes)
                    ON d.run = o.id
                ON CONFLICT (run_id, position) DO UPDATE
                SET status = EXCLUDED.status, attempts = EXCLUDED.attempts, result = EXCLUDED.result,
                    last_error = EXCLUDED.last_error, wake_at = EXCLUDED.wake_at, ref = EXCLUDED.ref,
                    compensation_attempts = EXCLUDED.compensation_attempts, result_bytes = EXCLUDED.result_bytes,
                    -- The time at which the step completed; its compensation does not change it.
                    finished_at = CASE WHEN EXCLUDED.compensation_attempts > 0 OR s.status = 'completed' THEN s.finished_at
                                       ELSE EXCLUDED.finished_at END,
                    compensation_started_at = coalesce(s.compensation_started_at, EXCLUDED.compensation_started_at),
                    compensated_at = EXCLUDED.compensated_at,
                    attempt_history = CASE
                        -- A row that continues to wait carries its last error along.
                        WHEN EXCLUDED.attempt_history IS NULL
                             OR (EXCLUDED.attempts, EXCLUDED.compensation_attempts) = (s.attempts, s.compensation_attempts)
                            THEN s.attempt_history
                        -- Edited by hand.
                        WHEN jsonb_typeof(s.attempt_history) <> 'array' THEN EXCLUDED.attempt_history
                        WHEN jsonb_array_length(s.attempt_history) >= %3$d
                            THEN (s.attempt_history - 0) || EXCLUDED.attempt_history
                        ELSE coalesce(s.attempt_history, '[]') || EXCLUDED.attempt_history END
                WHERE s.status IN ('waiting', 'retrying')
                   OR s.status = 'completed' AND EXCLUDED.compensation_attempts > s.compensation_attempts
                   -- The compensation is repeated without counting an attempt; last_error says why.
                   OR s.status = 'completed' AND EXCLUDED.status = 'completed' AND EXCLUDED.last_error IS NOT NULL
                      AND EXCLUDED.compensation_attempts = s.compensation_attempts
                   -- The child that was told to compensate has ended.
                   OR s.kind = 'child' AND s.status = 'completed' AND EXCLUDED.status <> 'completed'
                      AND EXCLUDED.compensation_attempts = s.compensation_attempts
                RETURNING s.run_id, s.kind""".formatted(runs, FAILED_ATTEMPT, JobRows.LONGEST_HISTORY);
    }

    /** Binds a claim, and the rows of its run. */
    static JdbcClient.StatementSpec withRows(JdbcClient.StatementSpec statement, RunClaim claim, List<StepRow> rows) {
        return bindRows(
                bindClaim(statement, claim),
                rows.stream().map(row -> new RunRow(claim.run(), row)).toList());
    }

    static JdbcClient.StatementSpec bindRows(JdbcClient.StatementSpec statement, List<RunRow> rows) {
        List<StepRow> steps = rows.stream().map(RunRow::row).toList();
        return statement
                .param("rows", array(rows, RunRow::run, UUID[]::new))
                .param("positions", array(steps, StepRow::position, Integer[]::new))
                .param("names", array(steps, StepRow::name, String[]::new))
                .param("kinds", array(steps, StepRow::kind, String[]::new))
                .param("statuses", array(steps, StepRow::status, String[]::new))
                .param("attempts", array(steps, StepRow::attempts, Integer[]::new))
                .param("results", array(steps, StepRow::result, String[]::new))
                .param("errors", array(steps, StepRow::error, String[]::new))
                .param("wakes", array(steps, row -> text(row.wakeAt()), String[]::new))
                .param("refs", array(steps, StepRow::ref, UUID[]::new))
                .param("compensations", array(steps, StepRow::compensationAttempts, Integer[]::new))
                .param("rans", array(steps, StepRow::ranMillis, Long[]::new))
                .param("besides", array(steps, StepRow::parallelGroup, Integer[]::new))
                .param("bytes", array(steps, row -> bytes(row.result()), Integer[]::new));
    }

    static JdbcClient.StatementSpec bindClaim(JdbcClient.StatementSpec statement, RunClaim claim) {
        return statement
                .param("run", claim.run())
                .param("epoch", claim.key().epoch())
                .param("node", claim.node());
    }

    static @Nullable Integer bytes(@Nullable String json) {
        return json == null ? null : (int) PrintedJson.bytes(json);
    }

    private static @Nullable String text(@Nullable Instant time) {
        return time == null ? null : time.toString();
    }

    /** Returns one column of these rows. */
    static <R, T> @Nullable T[] array(
            List<R> rows, Function<R, @Nullable T> column, Function<Integer, @Nullable T[]> maker) {
        @Nullable T[] values = maker.apply(rows.size());
        for (int i = 0; i < values.length; i++) {
            values[i] = column.apply(rows.get(i));
        }
        return values;
    }
}

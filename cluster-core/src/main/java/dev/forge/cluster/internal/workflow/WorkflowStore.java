package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.ClaimKey;
import dev.forge.cluster.internal.job.JobRows;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Types;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.RowCallbackHandler;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_workflow_runs}, their steps and their signals. A run is carried by one job, whose id is the run's.
 *
 * <p><b>Guards.</b> Whatever a run writes proves, in the same transaction, that its job is still the claim of the node that
 * writes. An operator who ends a run ends its job with it (a trigger does), so that one proof covers both.
 *
 * <p><b>Waking.</b> A waiting run is a job that is pending, at a later time or for another job's end. A signal raises {@code
 * wake_seq} and brings the job forward; a run that goes to wait compares {@code wake_seq} with what it has seen, under the
 * row's lock. So whichever of the two commits first, the run sees the signal.
 *
 * <p><b>Locks</b> are taken in one order: the run, then its job. The trigger that fails a run whose job has ended goes the
 * other way, and so waits for nobody: it leaves out a run that somebody has locked. Whoever then finds that the claim is lost
 * fails the run, and so does the leader when it looks through the runs ({@link WorkflowKeeping#revive}).
 *
 * <p>What people ask about runs is in {@link WorkflowReports}, what keeps the tables in order in {@link WorkflowKeeping}.
 */
public final class WorkflowStore {

    private static final Logger log = GuardedLogger.of(WorkflowStore.class);

    /** Names of jobs that carry runs begin with it. */
    public static final String PREFIX = "workflow:";

    /** What the metadata of a job says that a run waits for. */
    public static final String AWAITED = "forge.workflow";

    /** What a run does not go on from. */
    static final String FINAL =
            "('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator')";

    // A transaction that is cut off must not keep its rows for as long as the network lasts.
    private static final String BOUND = "set_config('idle_in_transaction_session_timeout', '5s', true)";

    /**
     * How long the statements of an execution wait for a run that another transaction has locked, in their FROM clauses. They hold a
     * slot and a connection of the application meanwhile: an operator who resolves many runs and leaves the transaction open would
     * stop all jobs. Part of the statement, because a setting of the session does not hold behind a transaction pooler.
     */
    private static final String LOCK_PATIENCE = "set_config('lock_timeout', '200', true) AS patience";

    /** Whether job {@code j} is that claim. */
    private static final String OURS =
            "j.id = :run AND j.claim_epoch = :epoch AND j.worker_id IS NOT DISTINCT FROM :node AND j.status IN "
                    + JobRows.HELD;

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;
    private final TransactionOperations transaction;

    /** @param source the application's for what joins its transactions; ours for the rest */
    public WorkflowStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /** The name of the job that carries runs of a version. */
    public static String jobName(String workflow, String version) {
        return PREFIX + workflow + "@" + version;
    }

    /** Whether a job of that name carries runs. */
    public static boolean isWorkflow(String job) {
        return job.startsWith(PREFIX);
    }

    /** A version of a workflow. */
    public record Version(String workflow, String version) {

        /** The name of the job that carries its runs. */
        public String jobName() {
            return WorkflowStore.jobName(workflow, version);
        }

        /** The version as people read it: {@code checkout@1}. */
        public String label() {
            return jobName().substring(PREFIX.length());
        }

        /** What the name of a job says; empty if it carries no runs. */
        public static Optional<Version> of(String job) {
            int at = job.lastIndexOf('@');
            return isWorkflow(job) && at > 0
                    ? Optional.of(new Version(job.substring(PREFIX.length(), at), job.substring(at + 1)))
                    : Optional.empty();
        }
    }

    /** Whether what is written here and now is part of the running transaction. */
    public boolean joinsTransaction() {
        DataSource source = jdbc.getDataSource();
        return source != null && TransactionSynchronizationManager.hasResource(source);
    }

    // Starting ----------------------------------------------------------------------------------------------

    /**
     * A run to be.
     *
     * @param input JSON
     * @param jobKey the unique key of its job, so that its end is noticed by whoever waits for it
     * @param metadata JSON
     */
    public record NewRun(
            UUID id,
            Version version,
            @Nullable String key,
            @Nullable String input,
            @Nullable UUID parent,
            @Nullable String jobKey,
            int priority,
            String metadata) {}

    /** Adds a run and its job, in the caller's transaction; false if there is a run with that key. */
    public boolean insert(NewRun run) {
        return client.sql(schema.sql("""
                WITH run AS (
                    INSERT INTO ~.forge_workflow_runs
                        (id, workflow_name, workflow_version, run_key, input, parent_id, job_id, created_at, updated_at,
                         input_bytes)
                    VALUES (:id, :name, :version, :key, :input::jsonb, :parent, :id, clock_timestamp(), clock_timestamp(),
                            :bytes)
                    ON CONFLICT DO NOTHING
                    RETURNING id)
                INSERT INTO ~.forge_jobs (id, name, priority, scheduled_at, metadata, unique_key, body_bytes)
                SELECT id, :job, :priority, clock_timestamp(), :metadata::jsonb, :job_key, octet_length(:metadata) + 2 FROM run
                """))
                        .param("id", run.id)
                        .param("name", run.version.workflow)
                        .param("version", run.version.version)
                        .param("key", run.key, Types.VARCHAR)
                        .param("input", run.input, Types.VARCHAR)
                        .param("bytes", bytes(run.input), Types.INTEGER)
                        .param("parent", run.parent, Types.OTHER)
                        .param("job", run.version.jobName())
                        .param("priority", run.priority)
                        .param("metadata", run.metadata)
                        .param("job_key", run.jobKey, Types.VARCHAR)
                        .update()
                == 1;
    }

    /** The child of a run whose job has that unique key, if it has not ended. */
    public Optional<UUID> activeChild(UUID parent, String jobKey) {
        return client.sql(schema.sql("""
                SELECT r.id FROM ~.forge_workflow_runs r JOIN ~.forge_jobs j ON j.id = r.id
                WHERE r.parent_id = ? AND r.status NOT IN %s AND j.unique_key = ? LIMIT 1
                """.formatted(FINAL)))
                .params(parent, jobKey)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional();
    }

    /** The run with that key. */
    public Optional<UUID> byKey(String workflow, String key) {
        return client.sql(schema.sql("SELECT id FROM ~.forge_workflow_runs WHERE workflow_name = ? AND run_key = ?"))
                .params(workflow, key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional();
    }

    // Running -----------------------------------------------------------------------------------------------

    /** The right to write for a run: the claim of its job. */
    public record Claim(ClaimKey key, UUID node) {}

    /**
     * A run with all that is remembered of it.
     *
     * @param input JSON
     * @param now by the database's clock
     * @param wakeSeq how many signals it has been given
     * @param cancelled whether somebody has called it off
     */
    public record Loaded(
            WorkflowStatus status,
            boolean unwinding,
            boolean cancelled,
            @Nullable UUID parent,
            @Nullable String input,
            Instant now,
            long wakeSeq,
            Map<Integer, StepRow> steps,
            List<Signal> signals) {}

    /**
     * A signal that was not taken yet.
     *
     * @param payload JSON
     * @param read whether the payload was read with the run; if not, {@link #payloadOf} does
     */
    public record Signal(UUID id, String name, @Nullable String payload, boolean read) {}

    /** Payloads of signals that have more bytes are read when the signal is taken: a run may never take it. */
    static final int SMALL_SIGNAL = 1_000;

    /**
     * Everything about a run, which is marked as running if it has been waiting. One statement: the signals that it answers
     * are those that its {@code wakeSeq} counts.
     */
    public Optional<Loaded> load(Claim claim) {
        var reading = new Reading();
        bind(client.sql(schema.sql("""
                WITH woken AS (
                    UPDATE ~.forge_workflow_runs r
                    SET status = CASE WHEN r.unwinding THEN 'compensating' ELSE 'running' END, awaits = NULL,
                        updated_at = clock_timestamp()
                    FROM %s CROSS JOIN ~.forge_jobs j
                    WHERE r.id = :run AND r.status IN ('waiting', 'blocked_missing_version') AND %s)
                """.formatted(LOCK_PATIENCE, OURS) + reading("= :run"))), claim)
                .query(reading);
        return Optional.ofNullable(reading.loaded(claim.key.id()));
    }

    /** The payload of a signal, JSON; null if it has none. */
    public @Nullable String payloadOf(UUID signal) {
        return client.sql(schema.sql("SELECT payload::text FROM ~.forge_workflow_signals WHERE id = ?"))
                .param(signal)
                .query((row, n) -> Optional.ofNullable(row.getString(1)))
                .optional()
                .flatMap(payload -> payload)
                .orElse(null);
    }

    /** Everything about runs, for {@link Reading}. */
    static String reading(String runs) {
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
                 FROM ~.forge_workflow_signals g WHERE g.run_id %1$s AND g.consumed_at IS NULL ORDER BY g.created_at, g.id)
                """.formatted(runs, SMALL_SIGNAL);
    }

    /** Puts runs together from rows. */
    static final class Reading implements RowCallbackHandler {

        private final Map<UUID, Loaded> runs = new HashMap<>();
        private final Map<UUID, Map<Integer, StepRow>> steps = new HashMap<>();
        private final Map<UUID, List<Signal>> signals = new HashMap<>();

        @Nullable
        Loaded loaded(UUID run) {
            return runs.get(run);
        }

        @Override
        public void processRow(ResultSet row) throws SQLException {
            UUID run = row.getObject("run", UUID.class);
            Map<Integer, StepRow> ofRun = steps.computeIfAbsent(run, id -> new HashMap<>());
            List<Signal> toRun = signals.computeIfAbsent(run, id -> new ArrayList<>());
            switch (row.getString("what")) {
                case "run" ->
                    runs.put(
                            run,
                            new Loaded(
                                    status(row.getString("status")),
                                    row.getBoolean("unwinding"),
                                    row.getBoolean("cancelled"),
                                    row.getObject("ref", UUID.class),
                                    row.getString("payload"),
                                    Objects.requireNonNull(instant(row, "at")),
                                    row.getLong("wake_seq"),
                                    ofRun,
                                    toRun));
                case "step" -> ofRun.put(row.getInt("position"), step(row));
                default ->
                    toRun.add(new Signal(
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

    /** What came of an attempt to write. */
    public enum Written {
        /** It is written. */
        WRITTEN,
        /** It is written, but meanwhile somebody has called the run off. */
        CALLED_OFF,
        /** A step is not written: what became of it was written otherwise meanwhile. */
        SUPERSEDED,
        /** Nothing is written: the run's job is not this node's any more. */
        CLAIM_LOST;

        /** @param steps whether all steps were written */
        static Written of(boolean steps, boolean unwinding) {
            return !steps ? SUPERSEDED : unwinding ? CALLED_OFF : WRITTEN;
        }
    }

    /**
     * Remembers steps and takes a signal, in the transaction that runs, or else at once. Whether a step is written decides:
     * a node that leaves may have counted its attempt already ({@link Written#SUPERSEDED}). Other rows only repeat what is
     * there, if anything is.
     */
    public Written remember(Claim claim, List<StepRow> rows, @Nullable UUID signal) {
        return bindRows(
                        bind(
                                client.sql(schema.sql("""
                WITH held AS MATERIALIZED (
                    SELECT j.id FROM ~.forge_jobs j WHERE %s FOR SHARE),
                taken AS (
                    UPDATE ~.forge_workflow_signals g SET consumed_at = clock_timestamp() FROM held
                    WHERE g.id = :signal),
                saved AS (%s)
                SELECT (SELECT count(*) FROM saved WHERE kind = 'step'), r.unwinding, %s
                FROM held JOIN ~.forge_workflow_runs r ON r.id = held.id
                """.formatted(OURS, upsert("held"), BOUND)))
                                        .param("signal", signal, Types.OTHER),
                                claim),
                        claim,
                        rows)
                .query((row, n) -> Written.of(row.getLong(1) == steps(rows), row.getBoolean(2)))
                .optional()
                .orElse(Written.CLAIM_LOST);
    }

    static long steps(List<StepRow> rows) {
        return rows.stream().filter(row -> row.kind().equals("step")).count();
    }

    /** Says what has gone wrong with a run, which goes on all the same. */
    public void noteError(Claim claim, String error) {
        bind(client.sql(schema.sql("""
                UPDATE ~.forge_workflow_runs r SET last_error = :error, updated_at = clock_timestamp()
                FROM %s CROSS JOIN ~.forge_jobs j WHERE r.id = :run AND r.status NOT IN %s AND %s
                """.formatted(LOCK_PATIENCE, FINAL, OURS))).param("error", error), claim)
                .update();
    }

    /** A run that has made progress does not bring its nodes down: what counts its crashes begins anew. */
    public void forgiveCrashes(Claim claim) {
        bind(client.sql(schema.sql("UPDATE ~.forge_jobs j SET recoveries = 0 WHERE %s".formatted(OURS))), claim)
                .update();
    }

    /** A row, and whose it is. */
    record RunRow(UUID run, StepRow row) {}

    /** What {@code attempt_history} is to say of row {@code d}, an attempt that failed. */
    private static final String ATTEMPT = """
            jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
                'attempt', CASE WHEN d.compensations > 0 THEN d.compensations ELSE d.attempts END,
                'undoing', nullif(d.compensations > 0, false), 'millis', CASE WHEN d.compensations = 0 THEN d.ran END,
                'endedAt', date_trunc('milliseconds', clock_timestamp()), 'error', left(d.error, %d))))""".formatted(JobRows.LONGEST_HISTORY_ERROR);

    /**
     * Remembers rows of those runs, whose numbers and kinds it returns; see {@link #bindRows}. What is done stays done,
     * whatever somebody believes who did not hear of it: only what waits or is to be tried again changes, and what is done
     * when it is undone, by the next attempt at that.
     */
    static String upsert(String of) {
        return """
                INSERT INTO ~.forge_workflow_steps AS s
                    (run_id, position, name, kind, status, attempts, result, last_error, wake_at, ref,
                     compensation_attempts, beside, started_at, finished_at, result_bytes, attempt_history)
                SELECT o.id, d.position, d.name, d.kind, d.status, d.attempts, d.result::jsonb, d.error, d.wake_at, d.ref,
                       d.compensations, d.beside, clock_timestamp() - coalesce(d.ran, 0) * interval '1 millisecond',
                       CASE WHEN d.status NOT IN ('waiting', 'retrying') THEN clock_timestamp() END, d.bytes,
                       CASE WHEN d.error IS NOT NULL AND d.kind = 'step' THEN %2$s END
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
                    -- When it was done, which undoing it does not change.
                    finished_at = CASE WHEN EXCLUDED.compensation_attempts > 0 OR s.status = 'completed' THEN s.finished_at
                                       ELSE EXCLUDED.finished_at END,
                    attempt_history = CASE
                        -- What only goes on waiting brings its last error along.
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
                   -- Undoing it is repeated without counting an attempt, and that is why.
                   OR s.status = 'completed' AND EXCLUDED.status = 'completed' AND EXCLUDED.last_error IS NOT NULL
                      AND EXCLUDED.compensation_attempts = s.compensation_attempts
                   -- The child that was asked to undo has ended.
                   OR s.kind = 'child' AND s.status = 'completed' AND EXCLUDED.status <> 'completed'
                      AND EXCLUDED.compensation_attempts = s.compensation_attempts
                RETURNING s.run_id, s.kind""".formatted(of, ATTEMPT, JobRows.LONGEST_HISTORY);
    }

    private static JdbcClient.StatementSpec bindRows(
            JdbcClient.StatementSpec statement, Claim claim, List<StepRow> rows) {
        return bindRows(
                statement,
                rows.stream().map(row -> new RunRow(claim.key.id(), row)).toList());
    }

    static JdbcClient.StatementSpec bindRows(JdbcClient.StatementSpec statement, List<RunRow> rows) {
        return statement
                .param("rows", rows.stream().map(RunRow::run).toArray(UUID[]::new))
                .param("positions", array(rows, StepRow::position, Integer[]::new))
                .param("names", array(rows, StepRow::name, String[]::new))
                .param("kinds", array(rows, StepRow::kind, String[]::new))
                .param("statuses", array(rows, StepRow::status, String[]::new))
                .param("attempts", array(rows, StepRow::attempts, Integer[]::new))
                .param("results", array(rows, StepRow::result, String[]::new))
                .param("errors", array(rows, StepRow::error, String[]::new))
                .param("wakes", array(rows, row -> text(row.wakeAt()), String[]::new))
                .param("refs", array(rows, StepRow::ref, UUID[]::new))
                .param("compensations", array(rows, StepRow::compensationAttempts, Integer[]::new))
                .param("rans", array(rows, StepRow::ranMillis, Long[]::new))
                .param("besides", array(rows, StepRow::beside, Integer[]::new))
                .param("bytes", array(rows, row -> bytes(row.result()), Integer[]::new));
    }

    private static @Nullable Integer bytes(@Nullable String json) {
        return json == null ? null : (int) PrintedJson.bytes(json);
    }

    private static @Nullable String text(@Nullable Instant time) {
        return time == null ? null : time.toString();
    }

    private static <T> @Nullable T[] array(
            List<RunRow> rows, Function<StepRow, @Nullable T> column, Function<Integer, @Nullable T[]> maker) {
        @Nullable T[] values = maker.apply(rows.size());
        for (int i = 0; i < values.length; i++) {
            values[i] = column.apply(rows.get(i).row);
        }
        return values;
    }

    private static JdbcClient.StatementSpec bind(JdbcClient.StatementSpec statement, Claim claim) {
        return statement
                .param("run", claim.key.id())
                .param("epoch", claim.key.epoch())
                .param("node", claim.node);
    }

    /** From now on the run undoes what it has done; CLAIM_LOST, and nothing is written, if it is not this node's any more. */
    public Written unwind(Claim claim, String error, List<StepRow> rows) {
        return Objects.requireNonNull(transaction.execute(status -> {
            client.sql(schema.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = 'compensating', unwinding = true, last_error = :error, updated_at = clock_timestamp()
                    FROM %s WHERE id = :run AND status NOT IN %s
                    RETURNING %s
                    """.formatted(LOCK_PATIENCE, FINAL, BOUND)))
                    .param("run", claim.key.id())
                    .param("error", error)
                    .query((row, n) -> true)
                    .list();
            Written written = remember(claim, rows, null);
            if (written == Written.CLAIM_LOST) {
                status.setRollbackOnly();
            }
            return written;
        }));
    }

    /**
     * How a run goes to wait.
     *
     * @param rows what is to be remembered
     * @param until when it goes on by itself; null: not
     * @param signal what it waits for
     * @param job another job that must have ended
     * @param mismatch why it cannot go on at all
     * @param progress JSON
     * @param seen the {@code wakeSeq} it knows of
     * @param unwinding whether it undoes, as far as it knows
     */
    public record Wait(
            List<StepRow> rows,
            @Nullable Instant until,
            @Nullable String signal,
            @Nullable UUID job,
            @Nullable String mismatch,
            @Nullable String progress,
            long seen,
            boolean unwinding) {}

    /**
     * Gives a run's job back, to be claimed again when there is something to go on with: at once, if there was a signal
     * meanwhile, or the run was called off. False if it is not this node's any more.
     *
     * @param before what belongs into the same transaction
     */
    public boolean suspend(Claim claim, Wait wait, Runnable before) {
        boolean back = trySuspend(claim, wait, before);
        if (!back) {
            failIfJobEnded(claim);
        }
        return back;
    }

    private void failIfJobEnded(Claim claim) {
        try {
            failIfJobEnded(claim.key.id());
        } catch (DataAccessException | TransactionException e) {
            // The leader does it later.
            log.debug("run {}: could not look whether its job has ended", claim.key.id(), e);
        }
    }

    /** Fails a run whose job has ended without it while somebody had locked the run; false if there is no need to. */
    public boolean failIfJobEnded(UUID run) {
        return failIfJobEnded(schema, client, transaction, run);
    }

    /**
     * Fails a run whose job has ended without it while somebody had locked the run. Two statements: the second sees the job as
     * it is when the run is locked.
     */
    static boolean failIfJobEnded(Schema schema, JdbcClient client, TransactionOperations transaction, UUID run) {
        return Boolean.TRUE.equals(transaction.execute(status -> client.sql(schema.sql("""
                        SELECT 1 FROM ~.forge_workflow_runs WHERE id = ? AND status NOT IN %s
                        FOR NO KEY UPDATE SKIP LOCKED
                        """.formatted(FINAL)))
                        .param(run)
                        .query((row, n) -> true)
                        .optional()
                        .isPresent()
                && client.sql(schema.sql("""
                        UPDATE ~.forge_workflow_runs r
                        SET status = 'failed', finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL,
                            last_error = 'its job was ' || j.status || coalesce(': ' || j.last_error, '')
                        FROM ~.forge_jobs j
                        WHERE r.id = ? AND j.id = r.id AND j.status NOT IN ('pending', 'claimed', 'running')
                        """)).param(run).update() == 1));
    }

    private boolean trySuspend(Claim claim, Wait wait, Runnable before) {
        return Boolean.TRUE.equals(transaction.execute(status -> {
            Seen seen = client.sql(schema.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = CASE WHEN :mismatch::text IS NOT NULL THEN 'blocked_signature_mismatch'
                                      WHEN unwinding THEN 'compensating' ELSE 'waiting' END,
                        awaits = CASE WHEN NOT unwinding THEN :signal::text END,
                        last_error = coalesce(nullif(:mismatch::text, ''), last_error), updated_at = clock_timestamp()
                    FROM %s WHERE id = :run AND status NOT IN %s
                    RETURNING wake_seq = :seen OR :mismatch::text IS NOT NULL, unwinding <> :unwinding, %s
                    """.formatted(LOCK_PATIENCE, FINAL, BOUND)))
                    .param("run", claim.key.id())
                    .param("mismatch", wait.mismatch, Types.VARCHAR)
                    .param("signal", wait.signal, Types.VARCHAR)
                    .param("seen", wait.seen)
                    .param("unwinding", wait.unwinding)
                    .query((row, n) -> new Seen(row.getBoolean(1), row.getBoolean(2)))
                    .optional()
                    .orElse(null);
            if (seen == null) {
                status.setRollbackOnly();
                return false;
            }
            // Called off meanwhile: what it was about to begin is not begun.
            List<StepRow> rows = seen.calledOff ? List.of() : wait.rows;
            if (!seen.calledOff) {
                before.run();
            }
            // Whoever ends the other job from here on waits for us, and finds us waiting.
            boolean early = !seen.same || seen.calledOff || (wait.job != null && hasEnded(wait.job));
            Instant until = early ? Instant.EPOCH : wait.until;
            boolean forever = !early && wait.until == null && wait.job == null;
            boolean back = bindRows(
                            bind(
                                    client.sql(schema.sql("""
                    WITH job AS (
                        UPDATE ~.forge_jobs j
                        SET status = 'pending', worker_id = NULL, lease_expires_at = NULL, started_at = NULL,
                            attempts = greatest(j.attempts - 1, 0), recoveries = 0, waits_for = :other,
                            progress = coalesce(:progress::jsonb, j.progress),
                            scheduled_at = CASE WHEN :forever THEN 'infinity'
                                                ELSE greatest(:until::timestamptz, clock_timestamp()) END
                        WHERE %s
                        RETURNING j.id),
                    saved AS (%s)
                    SELECT 1 FROM job
                    """.formatted(OURS, upsert("job"))))
                                            .param("other", early ? null : wait.job, Types.OTHER)
                                            .param("progress", wait.progress, Types.VARCHAR)
                                            .param("forever", forever)
                                            .param("until", offset(until), Types.TIMESTAMP_WITH_TIMEZONE),
                                    claim),
                            claim,
                            rows)
                    .query((row, n) -> true)
                    .optional()
                    .isPresent();
            if (!back) {
                status.setRollbackOnly();
            }
            return back;
        }));
    }

    /** Whether there is no signal more than the run knows of, and whether it was called off without knowing it. */
    private record Seen(boolean same, boolean calledOff) {}

    private boolean hasEnded(UUID job) {
        return client.sql(schema.sql("SELECT status FROM ~.forge_jobs WHERE id = ? FOR SHARE"))
                .param(job)
                .query(String.class)
                .optional()
                .map(status -> JobRows.status(status).isFinal())
                .orElse(true);
    }

    /**
     * How a run ends.
     *
     * @param result JSON
     * @param rows what is still to be remembered
     * @param progress JSON
     * @param unwinding whether it undoes, as far as it knows
     */
    public record End(
            WorkflowStatus status,
            @Nullable String result,
            @Nullable String error,
            List<StepRow> rows,
            @Nullable String progress,
            boolean unwinding) {}

    /** Ends a run and its job; CALLED_OFF, and nothing is written, if it has to undo instead. */
    public Written end(Claim claim, End end) {
        Written written = tryEnd(claim, end);
        if (written == Written.CLAIM_LOST) {
            failIfJobEnded(claim);
        }
        return written;
    }

    private Written tryEnd(Claim claim, End end) {
        return Objects.requireNonNull(transaction.execute(status -> {
            boolean ended = client.sql(schema.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = :status, result = :result::jsonb,
                        last_error = CASE WHEN :status <> 'completed' THEN coalesce(:error, last_error) END,
                        finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL
                    FROM %s WHERE id = :run AND status NOT IN %s AND unwinding = :unwinding
                    RETURNING %s
                    """.formatted(LOCK_PATIENCE, FINAL, BOUND)))
                    .param("run", claim.key.id())
                    .param("status", word(end.status))
                    .param("result", end.result, Types.VARCHAR)
                    .param("error", end.error, Types.VARCHAR)
                    .param("unwinding", end.unwinding)
                    .query((row, n) -> true)
                    .optional()
                    .isPresent();
            if (!ended) {
                status.setRollbackOnly();
                return Written.CALLED_OFF;
            }
            boolean completed = end.status == WorkflowStatus.COMPLETED;
            boolean done = bindRows(
                            bind(
                                    client.sql(schema.sql("""
                    WITH job AS (
                        UPDATE ~.forge_jobs j
                        SET status = :status, finished_at = clock_timestamp(), lease_expires_at = NULL,
                            last_error = coalesce(:error, j.last_error), started_at = coalesce(j.started_at, j.claimed_at),
                            progress = coalesce(:progress::jsonb, j.progress)
                        WHERE %s
                        RETURNING j.id),
                    saved AS (%s)
                    SELECT 1 FROM job
                    """.formatted(OURS, upsert("job"))))
                                            .param("status", completed ? "completed" : "failed")
                                            .param("progress", end.progress, Types.VARCHAR)
                                            .param("error", end.error, Types.VARCHAR),
                                    claim),
                            claim,
                            end.rows)
                    .query((row, n) -> true)
                    .optional()
                    .isPresent();
            if (!done) {
                status.setRollbackOnly();
                return Written.CLAIM_LOST;
            }
            return Written.WRITTEN;
        }));
    }

    // Orders ------------------------------------------------------------------------------------------------

    /**
     * A signal to be.
     *
     * @param payload JSON
     */
    public record NewSignal(UUID id, String name, @Nullable String payload) {}

    /**
     * How many signals may wait to be taken by one run.
     *
     * @param bytes of their payloads
     */
    public record SignalLimits(int signals, long bytes) {}

    /** What became of a signal. */
    public sealed interface Signalled {

        /**
         * It waits to be taken.
         *
         * @param wakes whether the run goes on now
         */
        record Given(boolean wakes) implements Signalled {}

        /** Nothing: there is no such run, or it has ended. */
        record NoRun() implements Signalled {}

        /** Nothing: so many wait already. The caller's transaction, if there is one, may go on. */
        record TooMany(int signals, long bytes) implements Signalled {}
    }

    /**
     * Gives a run a signal, in the caller's transaction or one of its own. Beyond the limits only the one is accepted that the
     * run waits for: what others have sent must not shut it out.
     */
    public Signalled signal(UUID run, NewSignal signal, SignalLimits limits) {
        // Two statements: the second must see what a run that went to wait meanwhile has written before the first, and
        // the signals of all who came before.
        return joined(() -> {
            String awaits = client.sql(schema.sql("""
                    SELECT coalesce(awaits, '') FROM ~.forge_workflow_runs
                    WHERE id = ? AND status NOT IN %s FOR NO KEY UPDATE
                    """.formatted(FINAL)))
                    .param(run)
                    .query(String.class)
                    .optional()
                    .orElse(null);
            return awaits == null ? new Signalled.NoRun() : give(run, signal, limits, awaits.equals(signal.name));
        });
    }

    private Signalled give(UUID run, NewSignal signal, SignalLimits limits, boolean awaited) {
        return client.sql(schema.sql("""
                WITH waiting AS MATERIALIZED (
                    SELECT count(*)::int AS signals, count(*) FILTER (WHERE g.name = :name) AS same,
                           coalesce(sum(coalesce(g.payload_bytes, octet_length(g.payload::text))), 0)::bigint AS bytes
                    FROM ~.forge_workflow_signals g WHERE g.run_id = :run AND g.consumed_at IS NULL),
                given AS (
                    INSERT INTO ~.forge_workflow_signals (id, run_id, name, payload, created_at, payload_bytes)
                    SELECT :id, :run, :name, :payload::jsonb, clock_timestamp(), :bytes FROM waiting
                    WHERE signals < :most AND waiting.bytes + :bytes <= :most_bytes OR :awaited AND same = 0
                    RETURNING run_id),
                counted AS (
                    UPDATE ~.forge_workflow_runs r SET wake_seq = (r.wake_seq + 1) % 1000000000000000000 FROM given WHERE r.id = given.run_id),
                woken AS (
                    UPDATE ~.forge_jobs SET scheduled_at = clock_timestamp(), waits_for = NULL
                    WHERE id = :run AND status = 'pending' AND :awaited AND EXISTS (SELECT FROM given)
                    RETURNING 1)
                SELECT signals, bytes, EXISTS (SELECT FROM given), EXISTS (SELECT FROM woken) FROM waiting
                """))
                .param("run", run)
                .param("id", signal.id)
                .param("name", signal.name)
                .param("payload", signal.payload, Types.VARCHAR)
                .param("bytes", (int) PrintedJson.bytes(signal.payload))
                .param("most", limits.signals)
                .param("most_bytes", limits.bytes)
                .param("awaited", awaited)
                .query((row, n) -> row.getBoolean(3)
                        ? new Signalled.Given(row.getBoolean(4))
                        : new Signalled.TooMany(row.getInt(1), row.getLong(2)))
                .single();
    }

    // Not by propagation: a transaction of JPA shares its connection, but not its manager.
    private <T> T joined(Supplier<T> work) {
        return joinsTransaction() ? work.get() : Objects.requireNonNull(transaction.execute(status -> work.get()));
    }

    /** The same; if the work is rejected, nothing of it is left in the caller's transaction, which may go on. */
    private <T> T joinedOrUndone(Supplier<T> work) {
        return joined(() -> Objects.requireNonNull(jdbc.execute((ConnectionCallback<T>) connection -> {
            Savepoint before = connection.setSavepoint();
            try {
                T result = work.get();
                connection.releaseSavepoint(before);
                return result;
            } catch (WorkflowRejectedException | DuplicateKeyException e) {
                connection.rollback(before);
                throw e;
            }
        })));
    }

    // Children, which are younger, before their parents: so does whoever ends the job of a child and frees its parent.
    private void bringForward(List<UUID> runs) {
        client.sql(schema.sql("""
                UPDATE ~.forge_jobs SET scheduled_at = clock_timestamp(), waits_for = NULL
                WHERE id = ANY (ARRAY(SELECT id FROM ~.forge_jobs WHERE id = ANY (:runs::uuid[]) AND status = 'pending'
                                      ORDER BY id DESC FOR NO KEY UPDATE))
                """)).param("runs", runs.toArray(UUID[]::new)).update();
    }

    /**
     * What was called off.
     *
     * @param jobs those that the runs were waiting for
     */
    public record CalledOff(List<UUID> runs, List<UUID> jobs) {}

    /**
     * Lets a run, and those it has started, undo what they have done; a failed one, too, if there is something. The jobs that
     * they wait for are called off.
     */
    public CalledOff cancel(UUID run, String reason) {
        return joinedOrUndone(() -> {
            List<UUID> runs = new ArrayList<>(cancelFailed(run, reason));
            // Level by level, each with statements of its own: one that is about to start a child is waited for, and
            // then its child is seen. A run that is marked starts none.
            Set<UUID> family = new HashSet<>(List.of(run));
            List<UUID> level = List.of(run);
            while (!level.isEmpty()) {
                runs.addAll(cancelOnly(level, reason));
                level = childrenOf(level).stream().filter(family::add).toList();
                if (family.size() > MOST_CANCELLED) {
                    throw new WorkflowRejectedException(
                            "run %s was not cancelled: more than %d runs descend from it. Cancel its children one by one."
                                    .formatted(run, MOST_CANCELLED));
                }
            }
            // Before the runs' own jobs, as a run does that goes to wait for one.
            List<UUID> jobs = cancelAwaited(runs);
            bringForward(runs);
            return new CalledOff(runs, jobs);
        });
    }

    /** More would keep too many rows locked for too long. */
    private static final int MOST_CANCELLED = 100_000;

    private List<UUID> cancelOnly(List<UUID> runs, String reason) {
        // Locked whether they are changed or not: one that has been cancelled before may just be starting a child.
        client.sql(schema.sql("""
                SELECT id FROM ~.forge_workflow_runs WHERE id = ANY (:runs::uuid[]) AND status NOT IN %s
                ORDER BY id FOR NO KEY UPDATE
                """.formatted(FINAL)))
                .param("runs", runs.toArray(UUID[]::new))
                .query((row, n) -> true)
                .list();
        return client.sql(schema.sql("""
                UPDATE ~.forge_workflow_runs
                SET unwinding = true, status = 'compensating', resolution_reason = :reason,
                    wake_seq = (wake_seq + 1) %% 1000000000000000000, awaits = NULL, updated_at = clock_timestamp()
                WHERE id = ANY (:runs::uuid[]) AND status NOT IN %s AND NOT unwinding
                RETURNING id
                """.formatted(FINAL)))
                .param("runs", runs.toArray(UUID[]::new))
                .param("reason", reason)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    private List<UUID> childrenOf(List<UUID> runs) {
        return client.sql(schema.sql("SELECT id FROM ~.forge_workflow_runs WHERE parent_id = ANY (:runs::uuid[])"))
                .param("runs", runs.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /**
     * Lets a child that has ended compensate what it has done, and its parent wait for that, in the transaction that runs.
     *
     * @param jobKey the unique key of the child's job, so that its end is noticed
     */
    public void reopen(UUID child, UUID parent, String jobKey, String reason) {
        client.sql(schema.sql("""
                WITH run AS (
                    UPDATE ~.forge_workflow_runs r
                    SET unwinding = true, status = 'compensating', resolution_reason = :reason,
                        wake_seq = (r.wake_seq + 1) %% 1000000000000000000, finished_at = NULL, updated_at = clock_timestamp()
                    WHERE r.id = :run AND r.parent_id = :parent AND r.status IN ('completed', 'failed')
                    RETURNING r.id, r.workflow_name, r.workflow_version),
                again AS (
                    UPDATE ~.forge_workflow_steps s
                    SET status = 'completed', compensation_attempts = 0, wake_at = NULL
                    FROM run WHERE s.run_id = run.id AND s.status = 'compensation_failed')
                INSERT INTO ~.forge_jobs AS j (id, name, scheduled_at, unique_key, metadata)
                SELECT id, '%1$s' || workflow_name || '@' || workflow_version, clock_timestamp(), :key,
                       jsonb_build_object('%2$s', :parent::text)
                FROM run
                ON CONFLICT (id) DO UPDATE
                SET status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, worker_id = NULL,
                    lease_expires_at = NULL, finished_at = NULL, started_at = NULL, waits_for = NULL,
                    unique_key = EXCLUDED.unique_key, metadata = j.metadata || EXCLUDED.metadata
                """.formatted(PREFIX, AWAITED)))
                .param("run", child)
                .param("parent", parent)
                .param("key", jobKey)
                .param("reason", reason)
                .update();
    }

    /** A run that has failed without undoing all that it has done gets a job that does. */
    private List<UUID> cancelFailed(UUID run, String reason) {
        return client.sql(schema.sql("""
                WITH run AS (
                    UPDATE ~.forge_workflow_runs r
                    SET unwinding = true, status = 'compensating', resolution_reason = :reason,
                        wake_seq = (r.wake_seq + 1) %% 1000000000000000000, finished_at = NULL, updated_at = clock_timestamp()
                    WHERE r.id = :run AND r.status = 'failed'
                      AND EXISTS (SELECT FROM ~.forge_workflow_steps s
                                  WHERE s.run_id = r.id AND s.kind IN ('step', 'job', 'child')
                                    AND s.status IN ('completed', 'compensation_failed'))
                    RETURNING r.id, r.workflow_name, r.workflow_version),
                again AS (
                    UPDATE ~.forge_workflow_steps s
                    SET status = 'completed', compensation_attempts = 0, wake_at = NULL
                    FROM run WHERE s.run_id = run.id AND s.status = 'compensation_failed')
                INSERT INTO ~.forge_jobs AS j (id, name, scheduled_at)
                SELECT id, '%s' || workflow_name || '@' || workflow_version, clock_timestamp() FROM run
                ON CONFLICT (id) DO UPDATE
                SET status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, worker_id = NULL,
                    lease_expires_at = NULL, finished_at = NULL, started_at = NULL, waits_for = NULL,
                    -- Whoever has waited for it has seen it fail, and may have started another one meanwhile.
                    unique_key = NULL
                RETURNING j.id
                """.formatted(PREFIX)))
                .param("run", run)
                .param("reason", reason)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    private List<UUID> cancelAwaited(List<UUID> runs) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL,
                    last_error = 'the run that waited for it was cancelled'
                FROM ~.forge_workflow_steps s
                WHERE s.run_id = ANY (:runs::uuid[]) AND s.kind = 'job' AND s.status = 'waiting' AND j.id = s.ref
                  AND j.status IN ('pending', 'claimed', 'running')
                RETURNING j.id
                """))
                .param("runs", runs.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Whether another active job has the key of job {@code j}: a parent has started another child in the place of the first. */
    private static final String REPLACED = """
            EXISTS (SELECT FROM ~.forge_jobs a
                    WHERE a.name = j.name AND a.unique_key = j.unique_key AND a.id <> j.id
                      AND a.status IN ('pending', 'claimed', 'running'))""";

    /**
     * Lets a run go on that has failed or did not fit its method. Not a child whose parent has started another one in its
     * place, as long as that one is active: both would do the same work. It may go on with its compensation.
     */
    public boolean retry(UUID run) {
        try {
            return joinedOrUndone(() -> revive(run));
        } catch (DuplicateKeyException e) {
            // Its parent has started another one in this moment.
            return false;
        }
    }

    // Of a run that undoes, what could not be undone is tried again. Otherwise steps that have failed are forgotten,
    // unless the method has gone on after them. Times, chance and state are no going on: they are forgotten with what
    // they follow, so that the method meets them, or does not, in their order. A job or a child that somebody has
    // retried before, and that has not failed again, is waited for instead of being started anew.
    private boolean revive(UUID run) {
        return client.sql(schema.sql("""
                    WITH run AS (
                        UPDATE ~.forge_workflow_runs r
                        SET status = CASE WHEN r.unwinding THEN 'compensating' ELSE 'running' END,
                            finished_at = NULL, updated_at = clock_timestamp(),
                            wake_seq = (wake_seq + 1) %% 1000000000000000000
                        WHERE r.id = :run AND r.status IN ('failed', 'blocked_signature_mismatch')
                          AND (r.unwinding OR NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = r.id AND %3$s))
                        RETURNING r.id, r.unwinding, r.workflow_name, r.workflow_version),
                    undone AS (
                        UPDATE ~.forge_workflow_steps s
                        SET status = 'completed', compensation_attempts = 0, wake_at = NULL
                        FROM run WHERE s.run_id = run.id AND run.unwinding AND s.status = 'compensation_failed'),
                    broken AS (
                        SELECT s.run_id, s.position FROM ~.forge_workflow_steps s JOIN run ON s.run_id = run.id
                        WHERE NOT run.unwinding AND s.status = 'failed'
                          AND NOT EXISTS (SELECT FROM ~.forge_workflow_steps later
                                          WHERE later.run_id = run.id AND later.position > s.position
                                            AND later.kind NOT IN ('now', 'uuid', 'state')
                                            AND (s.beside IS NULL OR later.beside IS DISTINCT FROM s.beside))),
                    retried AS (
                        UPDATE ~.forge_workflow_steps s
                        SET status = 'waiting', attempts = 0, last_error = NULL, finished_at = NULL
                        FROM broken b JOIN ~.forge_workflow_steps o ON o.run_id = b.run_id AND o.position = b.position
                        LEFT JOIN ~.forge_jobs j ON o.kind = 'job' AND j.id = o.ref
                        LEFT JOIN ~.forge_workflow_runs c ON o.kind = 'child' AND c.id = o.ref
                        WHERE s.run_id = b.run_id AND s.position = b.position
                          AND (j.status IN ('pending', 'claimed', 'running', 'completed')
                               OR c.status = 'completed' OR c.status NOT IN %2$s AND NOT c.unwinding)
                        RETURNING s.run_id, s.position),
                    forgotten AS (
                        DELETE FROM ~.forge_workflow_steps s USING broken b
                        WHERE s.run_id = b.run_id
                          AND (s.position = b.position AND NOT EXISTS (SELECT FROM retried t WHERE t.position = s.position)
                               OR s.position > b.position AND s.kind IN ('now', 'uuid', 'state')))
                    INSERT INTO ~.forge_jobs AS j (id, name, scheduled_at)
                    SELECT id, '%1$s' || workflow_name || '@' || workflow_version, clock_timestamp() FROM run
                    ON CONFLICT (id) DO UPDATE
                    SET status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, worker_id = NULL,
                        finished_at = NULL, started_at = NULL, waits_for = NULL,
                        unique_key = CASE WHEN NOT %3$s THEN j.unique_key END
                    WHERE j.status NOT IN ('claimed', 'running')
                    """.formatted(PREFIX, FINAL, REPLACED)))
                        .param("run", run)
                        .update()
                == 1;
    }

    // -------------------------------------------------------------------------------------------------------

    static @Nullable Instant instant(ResultSet row, String column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }

    private static @Nullable OffsetDateTime offset(@Nullable Instant time) {
        return time == null ? null : time.atOffset(ZoneOffset.UTC);
    }

    static String word(WorkflowStatus status) {
        return status.name().toLowerCase(Locale.ROOT);
    }

    static WorkflowStatus status(String word) {
        return WorkflowStatus.valueOf(word.toUpperCase(Locale.ROOT));
    }
}

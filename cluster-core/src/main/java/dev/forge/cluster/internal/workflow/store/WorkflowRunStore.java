// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.CLAIM_HELD;
import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.IDLE_LIMIT;
import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.LOCK_WAIT;
import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.bindClaim;
import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.upsertSteps;
import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.withRows;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Types;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The life of a run in {@code forge_workflow_runs} together with its job: start, suspend, compensate, end. Commands of
 * applications are in {@link WorkflowCommandStore} and {@link WorkflowSignalStore}, the history in {@link WorkflowHistoryStore}.
 */
public final class WorkflowRunStore {

    /** The statuses after which a run does not continue, as a list for {@code IN}. */
    static final String FINAL =
            "('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator')";

    /** The name of the job that carries a run, from the columns of its row. */
    static final String JOB_NAME =
            "'%s' || workflow_name || '@' || workflow_version".formatted(WorkflowVersion.JOB_PREFIX);

    private static final Logger log = GuardedLogger.of(WorkflowRunStore.class);

    private final Tables tables;
    private final TransactionOperations transaction;
    private final WorkflowHistoryStore history;
    private final HeldJobStore jobs;

    /** @param source that of the application if writes are to join its transactions */
    public WorkflowRunStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
        this.history = new WorkflowHistoryStore(schema, source);
        this.jobs = new HeldJobStore(schema, source);
    }

    // Start -------------------------------------------------------------------------------------------------

    /**
     * A run to insert.
     *
     * @param input JSON
     * @param jobKey the unique key of its job; the end of a job with a key frees the run that waits for it
     * @param metadata JSON
     */
    public record NewRun(
            UUID id,
            WorkflowVersion version,
            @Nullable String key,
            @Nullable String input,
            @Nullable UUID parent,
            @Nullable String jobKey,
            int priority,
            String metadata) {}

    /** Inserts a run and its job, in the caller's transaction if there is one; returns false if a run has that key. */
    public boolean insert(NewRun run) {
        return tables.sql("""
                WITH run AS (
                    INSERT INTO ~.forge_workflow_runs
                        (id, workflow_name, workflow_version, run_key, input, parent_id, job_id, created_at, updated_at,
                         input_bytes)
                    VALUES (:id, :name, :version, :key, :input::jsonb, :parent, :id, clock_timestamp(), clock_timestamp(),
                            :bytes)
                    ON CONFLICT DO NOTHING
                    RETURNING id)
                %s
                """.formatted(JobInsertStore.insertingCarrier(
                                ", priority, metadata, unique_key, body_bytes", """
                        id, :job, clock_timestamp(), :priority, :metadata::jsonb, :job_key, octet_length(:metadata) + 2 FROM run
                        """)))
                        .param("id", run.id)
                        .param("name", run.version.workflow())
                        .param("version", run.version.version())
                        .param("key", run.key, Types.VARCHAR)
                        .param("input", run.input, Types.VARCHAR)
                        .param("bytes", WorkflowHistoryStore.bytes(run.input), Types.INTEGER)
                        .param("parent", run.parent, Types.OTHER)
                        .param("job", run.version.jobName())
                        .param("priority", run.priority)
                        .param("metadata", run.metadata)
                        .param("job_key", run.jobKey, Types.VARCHAR)
                        .update()
                == 1;
    }

    /** Finds the child of a run whose job has that unique key, unless the child has ended. */
    public Optional<UUID> findActiveChild(UUID parent, String jobKey) {
        return tables.sql("""
                SELECT r.id FROM ~.forge_workflow_runs r JOIN ~.forge_jobs j ON j.id = r.id
                WHERE r.parent_id = ? AND r.status NOT IN %s AND j.unique_key = ? LIMIT 1
                """.formatted(FINAL))
                .params(parent, jobKey)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional();
    }

    /** Finds the run with that key. */
    public Optional<UUID> findByKey(String workflow, String key) {
        return tables.sql("SELECT id FROM ~.forge_workflow_runs WHERE workflow_name = ? AND run_key = ?")
                .params(workflow, key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional();
    }

    // Execution ---------------------------------------------------------------------------------------------

    /** Stores an error in a run that continues nevertheless. */
    public void storeError(RunClaim claim, String error) {
        bindClaim(tables.sql("""
                UPDATE ~.forge_workflow_runs r SET last_error = :error, updated_at = clock_timestamp()
                FROM %s CROSS JOIN ~.forge_jobs j WHERE r.id = :run AND r.status NOT IN %s AND %s
                """.formatted(LOCK_WAIT, FINAL, CLAIM_HELD)), claim)
                .param("error", error)
                .update();
    }

    /** Forgets the node failures of a run's job: a run that makes progress does not crash its nodes. */
    public void resetRecoveries(RunClaim claim) {
        jobs.resetRecoveries(claim.node(), claim.key());
    }

    /** Marks a run as compensating and records rows; writes nothing if the claim is lost. */
    public WriteResult beginCompensation(RunClaim claim, String error, List<StepRow> rows) {
        return Objects.requireNonNull(transaction.execute(status -> {
            tables.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = 'compensating', unwinding = true, last_error = :error, updated_at = clock_timestamp()
                    FROM %s WHERE id = :run AND status NOT IN %s
                    RETURNING %s
                    """.formatted(LOCK_WAIT, FINAL, IDLE_LIMIT))
                    .param("run", claim.run())
                    .param("error", error)
                    .query((row, n) -> true)
                    .list();
            WriteResult written = history.record(claim, rows, null);
            if (written == WriteResult.CLAIM_LOST) {
                status.setRollbackOnly();
            }
            return written;
        }));
    }

    // Suspension --------------------------------------------------------------------------------------------

    /**
     * What a suspended run waits for.
     *
     * @param rows to be recorded
     * @param until when the run continues by itself; null: it does not
     * @param signal the name of the awaited signal
     * @param job another job that must have ended
     * @param mismatch why the run is blocked: its method does not match its history; empty: as recorded before
     * @param progress JSON
     * @param seenWakeSeq the {@code wake_seq} that the execution has read
     * @param compensating whether the run compensates, as the execution has read it
     */
    public record Wait(
            List<StepRow> rows,
            @Nullable Instant until,
            @Nullable String signal,
            @Nullable UUID job,
            @Nullable String mismatch,
            @Nullable String progress,
            long seenWakeSeq,
            boolean compensating) {}

    /**
     * Releases a run's job until the run can continue: at once, if a signal was sent or the run was cancelled meanwhile. Returns
     * false if the claim is lost.
     *
     * @param inTransaction runs in the same transaction, before the job is released; not if the run was cancelled
     */
    public boolean suspend(RunClaim claim, Wait wait, Runnable inTransaction) {
        boolean released = trySuspend(claim, wait, inTransaction);
        if (!released) {
            failIfJobEnded(claim);
        }
        return released;
    }

    private boolean trySuspend(RunClaim claim, Wait wait, Runnable inTransaction) {
        return Boolean.TRUE.equals(transaction.execute(status -> {
            Changes changes = tables.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = CASE WHEN :mismatch::text IS NOT NULL THEN 'blocked_signature_mismatch'
                                      WHEN unwinding THEN 'compensating' ELSE 'waiting' END,
                        awaits = CASE WHEN NOT unwinding THEN :signal::text END,
                        last_error = coalesce(nullif(:mismatch::text, ''), last_error), updated_at = clock_timestamp()
                    FROM %s WHERE id = :run AND status NOT IN %s
                    RETURNING wake_seq = :seen OR :mismatch::text IS NOT NULL, unwinding <> :unwinding, %s
                    """.formatted(LOCK_WAIT, FINAL, IDLE_LIMIT))
                    .param("run", claim.run())
                    .param("mismatch", wait.mismatch, Types.VARCHAR)
                    .param("signal", wait.signal, Types.VARCHAR)
                    .param("seen", wait.seenWakeSeq)
                    .param("unwinding", wait.compensating)
                    .query((row, n) -> new Changes(!row.getBoolean(1), row.getBoolean(2)))
                    .optional()
                    .orElse(null);
            if (changes == null) {
                status.setRollbackOnly();
                return false;
            }
            if (!changes.cancelled) {
                inTransaction.run();
            }
            // From here on, a transaction that ends the other job waits for this one, and then finds the run waiting.
            boolean atOnce = changes.signalled || changes.cancelled || (wait.job != null && hasEnded(wait.job));
            boolean released = release(claim, wait, atOnce, changes.cancelled ? List.of() : wait.rows);
            if (!released) {
                status.setRollbackOnly();
            }
            return released;
        }));
    }

    /** What others did to a run since the execution has read it. */
    private record Changes(boolean signalled, boolean cancelled) {}

    private static final String RELEASE = "WITH job AS (%s), saved AS (%s) SELECT 1 FROM job"
            .formatted(HeldJobStore.suspending(CLAIM_HELD), upsertSteps("job"));

    private boolean release(RunClaim claim, Wait wait, boolean atOnce, List<StepRow> rows) {
        Instant until = atOnce ? Instant.EPOCH : wait.until;
        boolean forever = !atOnce && wait.until == null && wait.job == null;
        return withRows(tables.sql(RELEASE), claim, rows)
                .param("other", atOnce ? null : wait.job, Types.OTHER)
                .param("progress", wait.progress, Types.VARCHAR)
                .param("forever", forever)
                .param("until", offset(until), Types.TIMESTAMP_WITH_TIMEZONE)
                .query((row, n) -> true)
                .optional()
                .isPresent();
    }

    private static @Nullable OffsetDateTime offset(@Nullable Instant time) {
        return time == null ? null : time.atOffset(ZoneOffset.UTC);
    }

    /** Returns whether a job or a batch of jobs has ended. */
    private boolean hasEnded(UUID awaited) {
        return hasJobEnded(awaited).or(() -> hasBatchEnded(awaited)).orElse(true);
    }

    private Optional<Boolean> hasBatchEnded(UUID batch) {
        return tables.sql("SELECT ended_at IS NOT NULL FROM ~.forge_job_batches WHERE id = ? FOR SHARE")
                .param(batch)
                .query(Boolean.class)
                .optional();
    }

    private Optional<Boolean> hasJobEnded(UUID job) {
        return tables.sql("SELECT status FROM ~.forge_jobs WHERE id = ? FOR SHARE")
                .param(job)
                .query(String.class)
                .optional()
                .map(status -> EnumText.parse(JobStatus.class, status).isFinal());
    }

    // End ---------------------------------------------------------------------------------------------------

    /**
     * How a run ends.
     *
     * @param result JSON
     * @param rows that are still to be recorded
     * @param progress JSON
     * @param compensating whether the run compensates, as the execution has read it
     */
    public record End(
            WorkflowStatus status,
            @Nullable String result,
            @Nullable String error,
            List<StepRow> rows,
            @Nullable String progress,
            boolean compensating) {}

    /** Ends a run and its job; returns CANCELLED, and writes nothing, if the run has to compensate instead. */
    public WriteResult end(RunClaim claim, End end) {
        WriteResult written = tryEnd(claim, end);
        if (written == WriteResult.CLAIM_LOST) {
            failIfJobEnded(claim);
        }
        return written;
    }

    private WriteResult tryEnd(RunClaim claim, End end) {
        return Objects.requireNonNull(transaction.execute(status -> {
            WriteResult result = !endRun(claim, end)
                    ? WriteResult.CANCELLED
                    : endJob(claim, end) ? WriteResult.WRITTEN : WriteResult.CLAIM_LOST;
            if (result != WriteResult.WRITTEN) {
                status.setRollbackOnly();
            }
            return result;
        }));
    }

    private boolean endRun(RunClaim claim, End end) {
        return tables.sql("""
                    UPDATE ~.forge_workflow_runs
                    SET status = :status, result = :result::jsonb,
                        last_error = CASE WHEN :status <> 'completed' THEN coalesce(:error, last_error) END,
                        finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL
                    FROM %s WHERE id = :run AND status NOT IN %s AND unwinding = :unwinding
                    RETURNING %s
                    """.formatted(LOCK_WAIT, FINAL, IDLE_LIMIT))
                .param("run", claim.run())
                .param("status", EnumText.underscored(end.status))
                .param("result", end.result, Types.VARCHAR)
                .param("error", end.error, Types.VARCHAR)
                .param("unwinding", end.compensating)
                .query((row, n) -> true)
                .optional()
                .isPresent();
    }

    private static final String END_JOB = "WITH job AS (%s RETURNING j.id), saved AS (%s) SELECT 1 FROM job"
            .formatted(
                    JobFinishStore.endingCarrier(":status", ":error", ":progress", "WHERE " + CLAIM_HELD),
                    upsertSteps("job"));

    private boolean endJob(RunClaim claim, End end) {
        boolean completed = end.status == WorkflowStatus.COMPLETED;
        return withRows(tables.sql(END_JOB), claim, end.rows)
                .param("status", completed ? "completed" : "failed")
                .param("progress", end.progress, Types.VARCHAR)
                .param("error", end.error, Types.VARCHAR)
                .query((row, n) -> true)
                .optional()
                .isPresent();
    }

    private void failIfJobEnded(RunClaim claim) {
        try {
            failIfJobEnded(claim.run());
        } catch (DataAccessException | TransactionException e) {
            log.debug("Workflow run {}: could not check whether its job has ended; the leader will", claim.run(), e);
        }
    }

    /**
     * Fails a run whose job has ended without it while another transaction had locked the run; returns whether it did. Two
     * statements: the second sees the job as it is once the run is locked.
     */
    public boolean failIfJobEnded(UUID run) {
        return Boolean.TRUE.equals(transaction.execute(status -> tables.sql("""
                        SELECT 1 FROM ~.forge_workflow_runs WHERE id = ? AND status NOT IN %s
                        FOR NO KEY UPDATE SKIP LOCKED
                        """.formatted(FINAL))
                        .param(run)
                        .query((row, n) -> true)
                        .optional()
                        .isPresent()
                && tables.sql("""
                        UPDATE ~.forge_workflow_runs r
                        SET status = 'failed', finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL,
                            last_error = 'its job was ' || j.status || coalesce(': ' || j.last_error, '')
                        FROM ~.forge_jobs j
                        WHERE r.id = ? AND j.id = r.id AND j.status NOT IN ('pending', 'claimed', 'running')
                        """).param(run).update() == 1));
    }
}

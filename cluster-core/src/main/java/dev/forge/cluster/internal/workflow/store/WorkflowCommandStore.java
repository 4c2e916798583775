// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static dev.forge.cluster.internal.workflow.store.WorkflowRunStore.JOB_NAME;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.springframework.dao.DuplicateKeyException;

/** Cancels and retries runs, in the caller's transaction or one of its own, and starts the compensation of completed children. */
public final class WorkflowCommandStore {

    /** A larger family would keep too many rows locked for too long. */
    private static final int MOST_CANCELLED = 100_000;

    private final Tables tables;
    private final CommandTransactionStore transactions;

    public WorkflowCommandStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transactions = new CommandTransactionStore(source);
    }

    // Cancel ------------------------------------------------------------------------------------------------

    /**
     * The runs and jobs that were cancelled.
     *
     * @param heldJobs those of the jobs that the runs were waiting for that nodes held
     */
    public record Cancelled(List<UUID> runs, List<UUID> heldJobs) {}

    /**
     * Starts the compensation of the completed steps of a run and its descendants, also if the run has failed. Cancels the jobs that
     * they wait for.
     *
     * @throws WorkflowRejectedException if the run has too many descendants
     * @throws org.springframework.dao.CannotAcquireLockException if another transaction keeps one of the rows locked for too long
     */
    public Cancelled cancel(UUID run, String reason) {
        return transactions.execute("cancel", run, () -> {
            List<UUID> runs = new ArrayList<>(cancelFailed(run, reason));
            // Level by level, each with its own statements: an execution that is starting a child is waited for, and
            // the next statement sees the child. A run that is marked starts none.
            Set<UUID> family = new HashSet<>(List.of(run));
            List<UUID> level = List.of(run);
            while (!level.isEmpty()) {
                runs.addAll(cancelLevel(level, reason));
                level = childrenOf(level).stream().filter(family::add).toList();
                if (family.size() > MOST_CANCELLED) {
                    throw new WorkflowRejectedException(
                            "Workflow run %s was not cancelled: it has more than %d descendants. Cancel its children one by one."
                                    .formatted(run, MOST_CANCELLED));
                }
            }
            // Before the jobs of the runs: an execution that suspends its run locks in the same order.
            List<UUID> jobs = cancelAwaitedJobs(runs);
            schedule(runs);
            return new Cancelled(runs, jobs);
        });
    }

    private List<UUID> cancelLevel(List<UUID> runs, String reason) {
        // Also locks runs that were cancelled before: such a run may be starting a child.
        tables.sql("""
                SELECT id FROM ~.forge_workflow_runs WHERE id = ANY (:runs::uuid[]) AND status NOT IN %s
                ORDER BY id FOR NO KEY UPDATE
                """.formatted(WorkflowRunStore.FINAL))
                .param("runs", runs.toArray(UUID[]::new))
                .query((row, n) -> true)
                .list();
        return tables.sql("""
                UPDATE ~.forge_workflow_runs
                SET unwinding = true, status = 'compensating', resolution_reason = :reason,
                    wake_seq = (wake_seq + 1) %% 1000000000000000000, awaits = NULL, updated_at = clock_timestamp()
                WHERE id = ANY (:runs::uuid[]) AND status NOT IN %s AND NOT unwinding
                RETURNING id
                """.formatted(WorkflowRunStore.FINAL))
                .param("runs", runs.toArray(UUID[]::new))
                .param("reason", reason)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    private List<UUID> childrenOf(List<UUID> runs) {
        return tables.sql("SELECT id FROM ~.forge_workflow_runs WHERE parent_id = ANY (:runs::uuid[])")
                .param("runs", runs.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Inserts the job of {@code run}. */
    private static final String CARRIER =
            JobInsertStore.insertingCarrier("", "id, %s, clock_timestamp() FROM run".formatted(JOB_NAME));

    /** Starts the compensation of a failed run that has steps to compensate. */
    private List<UUID> cancelFailed(UUID run, String reason) {
        // The parent of the run has seen it fail, and may have started another child with its key.
        return tables.sql(reopening("""
                        r.status = 'failed'
                        AND EXISTS (SELECT FROM ~.forge_workflow_steps s
                                    WHERE s.run_id = r.id AND s.kind IN ('step', 'job', 'child')
                                      AND s.status IN ('completed', 'compensation_failed'))
                        """) + CARRIER + JobRestartStore.orRestarting("NULL") + " RETURNING j.id")
                .param("run", run)
                .param("reason", reason)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Returns the first words of a statement that lets an ended {@code run} compensate its steps, also those that failed to. */
    private static String reopening(String condition) {
        return """
                WITH run AS (
                    UPDATE ~.forge_workflow_runs r
                    SET unwinding = true, status = 'compensating', resolution_reason = :reason,
                        wake_seq = (r.wake_seq + 1) %% 1000000000000000000, finished_at = NULL, updated_at = clock_timestamp()
                    WHERE r.id = :run AND %s
                    RETURNING r.id, r.workflow_name, r.workflow_version),
                again AS (
                    UPDATE ~.forge_workflow_steps s
                    SET status = 'completed', compensation_attempts = 0, wake_at = NULL
                    FROM run WHERE s.run_id = run.id AND s.status = 'compensation_failed')
                """.formatted(condition);
    }

    /** Returns those that nodes held. */
    private List<UUID> cancelAwaitedJobs(List<UUID> runs) {
        return tables
                .sql(JobCancelStore.cancelling(
                        "'the run that waited for it was cancelled'", """
                        FROM ~.forge_workflow_steps s
                        WHERE s.run_id = ANY (:runs::uuid[]) AND s.kind = 'job' AND s.status = 'waiting' AND j.id = s.ref
                          AND j.status IN %s
                        """.formatted(JobRows.ACTIVE)))
                .param("runs", runs.toArray(UUID[]::new))
                .query(JobCancelStore::cancelled)
                .list()
                .stream()
                .filter(CancelledJob::held)
                .map(CancelledJob::id)
                .toList();
    }

    // Children, which are younger, before their parents: a transaction that ends the job of a child and frees its
    // parent locks in the same order.
    private void schedule(List<UUID> runs) {
        tables.sql(JobScheduleStore.waking("""
                WHERE id = ANY (ARRAY(SELECT id FROM ~.forge_jobs WHERE id = ANY (:runs::uuid[]) AND status = 'pending'
                                      ORDER BY id DESC FOR NO KEY UPDATE))
                """))
                .param("runs", runs.toArray(UUID[]::new))
                .update();
    }

    // Compensation of children ------------------------------------------------------------------------------

    /**
     * Starts the compensation of an ended child, in the transaction that suspends its parent.
     *
     * @param jobKey the unique key of the child's job; the end of a job with a key frees the run that waits for it
     */
    public void reopenChild(UUID child, UUID parent, String jobKey, String reason) {
        tables.sql(reopening("r.parent_id = :parent AND r.status IN ('completed', 'failed')")
                        + JobInsertStore.insertingCarrier(
                                ", unique_key, metadata",
                                "id, %s, clock_timestamp(), :key, jsonb_build_object('%s', :parent::text) FROM run"
                                        .formatted(JOB_NAME, WorkflowJobs.AWAITED_KEY))
                        + JobRestartStore.orRestarting("EXCLUDED.unique_key")
                        + ", metadata = j.metadata || EXCLUDED.metadata")
                .param("run", child)
                .param("parent", parent)
                .param("key", jobKey)
                .param("reason", reason)
                .update();
    }

    // Retry -------------------------------------------------------------------------------------------------

    /** Whether another active job has the key of job {@code j}: a parent has started another child in the place of the first. */
    private static final String REPLACED = """
            EXISTS (SELECT FROM ~.forge_jobs a
                    WHERE a.name = j.name AND a.unique_key = j.unique_key AND a.id <> j.id
                      AND a.status IN %s)""".formatted(JobRows.ACTIVE);

    /**
     * Continues a run that has failed, or that was blocked because its method did not match its history. Returns false for other
     * runs, and for a child whose parent has started another child in its place that is still active: both would do the same
     * work. Such a child can only continue its compensation.
     *
     * @throws org.springframework.dao.CannotAcquireLockException if another transaction keeps the run locked for too long
     */
    public boolean retry(UUID run) {
        try {
            return transactions.execute("retry", run, () -> restart(run));
        } catch (DuplicateKeyException e) {
            // The parent has just started another child.
            return false;
        }
    }

    // A run that compensates retries its failed compensations. Otherwise the recorded failures of steps are deleted,
    // unless the method has continued after them. Times, UUIDs and states do not count as continuation: they are
    // deleted with the failure that they follow, so that the method meets them in their order, or not at all. A job or
    // a child that was retried before, and has not failed again, is awaited instead of being started anew.
    private boolean restart(UUID run) {
        return tables.sql("""
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
                          AND (j.status IN %6$s OR j.status = 'completed'
                               OR c.status = 'completed' OR c.status NOT IN %2$s AND NOT c.unwinding)
                        RETURNING s.run_id, s.position),
                    forgotten AS (
                        DELETE FROM ~.forge_workflow_steps s USING broken b
                        WHERE s.run_id = b.run_id
                          AND (s.position = b.position AND NOT EXISTS (SELECT FROM retried t WHERE t.position = s.position)
                               OR s.position > b.position AND s.kind IN ('now', 'uuid', 'state')))
                    %1$s %4$s
                    WHERE j.status NOT IN %5$s
                    """.formatted(
                                        CARRIER,
                                        WorkflowRunStore.FINAL,
                                        REPLACED,
                                        JobRestartStore.orRestarting(
                                                "CASE WHEN NOT %s THEN j.unique_key END".formatted(REPLACED)),
                                        JobRows.HELD,
                                        JobRows.ACTIVE))
                        .param("run", run)
                        .update()
                == 1;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.purge.UndeletableStore;
import java.sql.Types;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Batches of jobs in {@code forge_job_batches}. Nothing counts their jobs: whether a batch has ended, failed or succeeded is read from
 * the rows of its jobs, and the statement that records it releases the callback.
 *
 * <p>A transaction that adds jobs holds a share lock on the row of the batch, so that the batch is closed after all of them. A
 * statement that finds a batch closed therefore sees all of its jobs.
 */
public final class JobBatchStore {

    /** The metadata key of callbacks: the batch that they are about. */
    public static final String CALLBACK_KEY = "forge.batch";

    /** The expression of the index on batches. */
    private static final String STATE = """
            (CASE WHEN j.status IN ('pending', 'claimed', 'running') THEN 0 WHEN j.status IN ('failed', 'abandoned') THEN 1 ELSE 2 END)""";

    public static final int ACTIVE = 0;
    public static final int FAILED = 1;
    public static final int CANCELLED = 2;

    private final Tables tables;

    public JobBatchStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * Returns a FROM clause with the jobs {@code j} of batch {@code b} in a state. In the order of the index, and not by equality:
     * the planner would otherwise read the table, where it expects many such jobs and finds none.
     */
    public static String jobsIn(int state) {
        return """
                FROM ~.forge_jobs j
                WHERE j.batch_id IS NOT NULL AND j.status <> 'completed' AND (j.batch_id, %1$s) >= (b.id, %2$d) AND (j.batch_id, %1$s) < (b.id, %3$d)
                """.formatted(STATE, state, state + 1);
    }

    public static String inOrder() {
        return "ORDER BY j.batch_id, %s, j.id".formatted(STATE);
    }

    /** From the end: the jobs that were added last are likely to end last. */
    private static String exists(int state) {
        return "EXISTS (SELECT FROM (SELECT j.id %s ORDER BY j.batch_id DESC, %s DESC, j.id DESC LIMIT 1) AS one)"
                .formatted(jobsIn(state), STATE);
    }

    private static String existsPurged(String kind) {
        return "EXISTS (SELECT FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id AND p.jobs = 0 AND p.%s > 0)"
                .formatted(kind);
    }

    private static String existsPart(String condition) {
        return "EXISTS (SELECT FROM ~.forge_job_batches c WHERE c.parent_id = b.id AND c.%s)".formatted(condition);
    }

    /** A condition on batches {@code b}: a job has failed, here or in a part, and was not retried successfully. */
    public static final String HAS_FAILED = "(%s OR %s OR %s)"
            .formatted(
                    exists(FAILED),
                    existsPurged("failed"),
                    existsPart("failed_at IS NOT NULL AND c.succeeded_at IS NULL"));

    /** The part of a statement that adds jobs to the batch of a parameter; their number is the next one. Nothing is added if it is closed. */
    static final String ADDING = """
            batch AS (SELECT id FROM ~.forge_job_batches WHERE id = ? AND closed_at IS NULL FOR SHARE),
            part AS (INSERT INTO ~.forge_job_batch_parts (batch_id, jobs) SELECT id, ? FROM batch)
            """;

    /** The part of a statement that remembers {@code deleted} jobs that did not complete: their batches do not succeed without them. */
    static final String REMEMBERING = """
            remembered AS (
                INSERT INTO ~.forge_job_batch_parts (batch_id, failed, cancelled)
                SELECT d.batch_id, count(*) FILTER (WHERE d.status <> 'cancelled'), count(*) FILTER (WHERE d.status = 'cancelled')
                FROM deleted d
                WHERE d.batch_id IS NOT NULL AND d.status <> 'completed'
                  AND EXISTS (SELECT FROM ~.forge_job_batches b WHERE b.id = d.batch_id FOR KEY SHARE)
                GROUP BY d.batch_id)
            """;

    // For callers -------------------------------------------------------------------------------------------

    /**
     * A batch to open. Its callbacks are jobs that wait for it; they are inserted in the same transaction.
     *
     * @param parent the batch that it is part of; null: none
     */
    public record NewBatch(
            UUID id,
            String name,
            @Nullable UUID parent,
            @Nullable UUID onFailure,
            @Nullable UUID onEnd,
            @Nullable UUID onSuccess) {}

    public boolean exists(UUID id) {
        return tables.sql("SELECT EXISTS (SELECT FROM ~.forge_job_batches WHERE id = ?)")
                .param(id)
                .query(Boolean.class)
                .single();
    }

    /** Opens a batch; false if its parent is unknown or closed. */
    public boolean open(NewBatch batch) {
        return tables.sql("""
                WITH parent AS (SELECT id FROM ~.forge_job_batches WHERE id = :parent AND closed_at IS NULL FOR SHARE)
                INSERT INTO ~.forge_job_batches (id, name, parent_id, on_failure, on_end, on_success)
                SELECT :id, :name, :parent, :on_failure, :on_end, :on_success
                WHERE :parent::uuid IS NULL OR EXISTS (SELECT FROM parent)
                """)
                        .param("id", batch.id)
                        .param("name", batch.name)
                        .param("parent", batch.parent, Types.OTHER)
                        .param("on_failure", batch.onFailure, Types.OTHER)
                        .param("on_end", batch.onEnd, Types.OTHER)
                        .param("on_success", batch.onSuccess, Types.OTHER)
                        .update()
                == 1;
    }

    /** Closes a batch; false if it is unknown or closed. */
    public boolean close(UUID id) {
        return tables.sql("""
                UPDATE ~.forge_job_batches SET closed_at = clock_timestamp() WHERE id = ? AND closed_at IS NULL
                """).param(id).update() == 1;
    }

    /** Requests that the jobs of a batch are cancelled; false if it is unknown, has ended or was cancelled. */
    public boolean cancel(UUID id) {
        return tables.sql("""
                UPDATE ~.forge_job_batches
                SET cancelled_at = clock_timestamp(), closed_at = coalesce(closed_at, clock_timestamp())
                WHERE id = ? AND ended_at IS NULL AND cancelled_at IS NULL
                """).param(id).update() == 1;
    }

    /** Requests that the failed jobs of a batch are retried; false if it is unknown, being cancelled, or none has failed. */
    public boolean retryFailed(UUID id) {
        return tables.sql("""
                UPDATE ~.forge_job_batches b SET retry_up_to = clock_timestamp(), retried_at = clock_timestamp()
                WHERE id = ? AND (cancelled_at IS NULL OR ended_at IS NOT NULL) AND (%s OR %s)
                """.formatted(exists(FAILED), existsPart("failed_at IS NOT NULL AND c.succeeded_at IS NULL")))
                        .param(id)
                        .update()
                == 1;
    }

    // For nodes ---------------------------------------------------------------------------------------------

    /**
     * A batch whose state has changed.
     *
     * @param parent the batch that it is part of; null: none
     * @param released how many jobs were waiting for the change
     */
    public record Changed(UUID id, @Nullable UUID parent, int released) {}

    /**
     * Records which of these batches have failed, ended or succeeded, and releases the jobs that wait for that: callbacks, and runs
     * of workflows. Each of these changes happens once. Returns the batches that have changed.
     */
    public List<Changed> settle(Collection<UUID> ids) {
        // What is seen comes from the snapshot of the statement, whatever happens to the rows meanwhile: a
        // batch that was closed after the snapshot may have jobs that the snapshot does not contain.
        return tables.sql("""
                WITH seen AS MATERIALIZED (
                    SELECT s.*, s.failed_jobs OR s.failed_parts AS failed,
                           -- A part that had failed may have succeeded since.
                           s.ended AND NOT s.failed_jobs AND s.cancelled_at IS NULL AND NOT %1$s AND NOT %2$s AND NOT %3$s AS succeeded
                    FROM (
                        SELECT b.*, %4$s OR %5$s AS failed_jobs, %6$s AS failed_parts,
                               b.closed_at IS NOT NULL AND NOT %7$s AND NOT %8$s AS ended
                        FROM set_config('lock_timeout', '100', true) AS patience, ~.forge_job_batches b
                        WHERE b.id = ANY (?::uuid[]) AND b.succeeded_at IS NULL) AS s
                    CROSS JOIN LATERAL (SELECT s.id) AS b
                ), changed AS (
                    UPDATE ~.forge_job_batches b
                    SET failed_at = coalesce(b.failed_at, CASE WHEN s.failed THEN clock_timestamp() END),
                        ended_at = coalesce(b.ended_at, CASE WHEN s.ended THEN clock_timestamp() END),
                        succeeded_at = coalesce(b.succeeded_at, CASE WHEN s.succeeded THEN clock_timestamp() END)
                    FROM seen s
                    WHERE b.id = s.id AND (s.failed AND b.failed_at IS NULL OR s.ended AND b.ended_at IS NULL
                                           OR s.succeeded AND b.succeeded_at IS NULL)
                    RETURNING b.*
                ), released AS (
                    UPDATE ~.forge_jobs j SET %9$s
                    FROM changed c
                    WHERE j.waits_for = ANY (ARRAY(SELECT id FROM changed)) AND j.waits_for = c.id AND j.status = 'pending'
                      AND CASE WHEN j.id = c.on_failure THEN c.failed_at IS NOT NULL
                               WHEN j.id = c.on_success THEN c.succeeded_at IS NOT NULL
                               ELSE c.ended_at IS NOT NULL END
                    RETURNING c.id
                ), needless AS (
                    -- Callbacks that cannot run any more.
                    DELETE FROM ~.forge_jobs j USING changed c
                    WHERE j.waits_for = ANY (ARRAY(SELECT id FROM changed)) AND j.waits_for = c.id AND j.status = 'pending'
                      AND (j.id = c.on_failure AND c.failed_at IS NULL
                               AND (c.succeeded_at IS NOT NULL OR c.ended_at IS NOT NULL AND c.cancelled_at IS NOT NULL)
                           OR j.id = c.on_success AND c.ended_at IS NOT NULL AND c.cancelled_at IS NOT NULL))
                SELECT c.id, c.parent_id, (SELECT count(*) FROM released r WHERE r.id = c.id) FROM changed c
                """.formatted(
                                exists(CANCELLED),
                                existsPurged("cancelled"),
                                existsPart("succeeded_at IS NULL"),
                                exists(FAILED),
                                existsPurged("failed"),
                                existsPart("failed_at IS NOT NULL"),
                                exists(ACTIVE),
                                existsPart("ended_at IS NULL"),
                                JobReleaseStore.FREED))
                .param(ids.toArray(UUID[]::new))
                .query((row, n) ->
                        new Changed(row.getObject(1, UUID.class), row.getObject(2, UUID.class), row.getInt(3)))
                .list();
    }

    /**
     * Batches that nodes look after.
     *
     * @param ids up to the limit of them
     * @param last the last of them; null: the next call starts from the beginning
     */
    public record Slice(List<UUID> ids, @Nullable UUID last) {}

    /** Returns the next batches that have not ended. */
    public Slice unended(@Nullable UUID after, int limit) {
        return slice("ended_at IS NULL", after, limit);
    }

    /** Returns the next batches that have ended, but not all of whose jobs have completed: these may be retried. */
    public Slice unsuccessful(@Nullable UUID after, int limit) {
        return slice("ended_at IS NOT NULL AND succeeded_at IS NULL", after, limit);
    }

    private Slice slice(String condition, @Nullable UUID after, int limit) {
        List<UUID> ids = tables.sql("""
                SELECT id FROM ~.forge_job_batches
                WHERE id > coalesce(:after, '00000000-0000-0000-0000-000000000000'::uuid) AND %s
                ORDER BY id LIMIT :limit
                """.formatted(condition))
                .param("after", after, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        return new Slice(ids, ids.size() < limit ? null : ids.get(ids.size() - 1));
    }

    /** Cancels and retries the parts of these batches for which that was requested, up to the limit; returns those parts. */
    public List<UUID> passOn(Collection<UUID> ids, int limit) {
        return tables.sql("""
                WITH part AS MATERIALIZED (
                    SELECT c.id, b.cancels, b.retry_up_to
                    FROM set_config('lock_timeout', '100', true) AS patience,
                         (SELECT id, retry_up_to, cancelled_at IS NOT NULL AND ended_at IS NULL AS cancels
                          FROM ~.forge_job_batches WHERE id = ANY (:ids::uuid[])) AS b
                    JOIN ~.forge_job_batches c ON c.parent_id = b.id AND c.succeeded_at IS NULL
                    WHERE b.cancels AND c.cancelled_at IS NULL AND c.ended_at IS NULL
                       OR b.retry_up_to IS NOT NULL AND c.failed_at <= b.retry_up_to AND c.cancelled_at IS NULL
                          AND coalesce(c.retried_at < b.retry_up_to, true)
                    LIMIT :limit)
                UPDATE ~.forge_job_batches c
                SET cancelled_at = CASE WHEN p.cancels THEN coalesce(c.cancelled_at, clock_timestamp()) ELSE c.cancelled_at END,
                    closed_at = CASE WHEN p.cancels THEN coalesce(c.closed_at, clock_timestamp()) ELSE c.closed_at END,
                    retry_up_to = CASE WHEN p.retry_up_to IS NULL THEN c.retry_up_to ELSE greatest(c.retry_up_to, p.retry_up_to) END,
                    retried_at = CASE WHEN p.retry_up_to IS NULL THEN c.retried_at ELSE clock_timestamp() END
                FROM part p WHERE c.id = p.id
                RETURNING c.id
                """)
                .param("ids", ids.toArray(UUID[]::new))
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Ends the requested retries of those of these batches whose failed jobs have all been retried. */
    public void endRetries(Collection<UUID> ids) {
        tables.sql("""
                UPDATE ~.forge_job_batches b SET retry_up_to = NULL
                WHERE b.id = ANY (?::uuid[]) AND b.retry_up_to IS NOT NULL
                  AND NOT EXISTS (SELECT FROM (SELECT j.id %1$s AND j.finished_at <= b.retry_up_to %2$s LIMIT 1) AS one)
                """.formatted(jobsIn(FAILED), inOrder()))
                .param(ids.toArray(UUID[]::new))
                .update();
    }

    /** Returns those of these batches whose jobs are still to be cancelled or retried. */
    public List<UUID> unfinished(Collection<UUID> ids) {
        return tables.sql("""
                SELECT id FROM ~.forge_job_batches
                WHERE id = ANY (?::uuid[]) AND (cancelled_at IS NOT NULL AND ended_at IS NULL OR retry_up_to IS NOT NULL)
                """)
                .param(ids.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** From how many rows of {@code forge_job_batch_parts} on the rows of a batch are added up. */
    static final int MANY_PARTS = 100;

    /**
     * Adds up the numbers of those of these batches that have many, so that reading them stays cheap; returns how many rows it
     * replaced, up to the limit. Skips locked rows.
     */
    public int addUp(Collection<UUID> ids, int limit) {
        return tables.sql("""
                WITH batch AS MATERIALIZED (
                    -- The lock keeps the batch from being deleted without the new rows.
                    SELECT b.id FROM ~.forge_job_batches b
                    WHERE b.id = ANY (:ids::uuid[])
                      AND EXISTS (SELECT FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id OFFSET %d)
                    FOR KEY SHARE SKIP LOCKED
                ), part AS (
                    DELETE FROM ~.forge_job_batch_parts WHERE ctid = ANY (ARRAY(
                        SELECT p.ctid FROM batch b CROSS JOIN LATERAL (
                            SELECT p.ctid FROM ~.forge_job_batch_parts p WHERE p.batch_id = b.id
                            LIMIT :limit FOR UPDATE SKIP LOCKED) AS p
                        LIMIT :limit))
                    RETURNING batch_id, jobs, failed, cancelled
                ), sum AS (
                    INSERT INTO ~.forge_job_batch_parts (batch_id, jobs, failed, cancelled)
                    SELECT p.batch_id, sum(p.jobs), sum(p.failed), sum(p.cancelled) FROM part p GROUP BY p.batch_id, p.jobs = 0)
                SELECT count(*) FROM part
                """.formatted(MANY_PARTS))
                .param("ids", ids.toArray(UUID[]::new))
                .param("limit", limit)
                .query(Integer.class)
                .single();
    }

    /**
     * Deletes batches that ended, or were retried, longer ago than the retention, up to the limit; not while they are part of another
     * one.
     */
    public int purge(Duration retention, int limit) {
        return purge(retention, expired(retention, limit));
    }

    /** Finds the batch {@code u.row_id} if it has ended. */
    public static final String ENDED_BATCH =
            "SELECT FROM ~.forge_job_batches b WHERE b.id = u.row_id AND b.ended_at IS NOT NULL";

    /** Returns the batches that {@link #purge(Duration, int)} would delete. */
    public List<UUID> expired(Duration retention, int limit) {
        return tables.sql("""
                SELECT b.id FROM ~.forge_job_batches b
                WHERE b.ended_at < now() - :retention * interval '1 millisecond' AND %s AND %s
                ORDER BY b.ended_at LIMIT (SELECT :limit)
                """.formatted(PURGEABLE, UndeletableStore.notSetAside("forge_job_batches", "b.id")))
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Deletes those of these ended batches that may be deleted. */
    public int purge(Duration retention, List<UUID> old) {
        if (old.isEmpty()) {
            return 0;
        }
        // The last job of one of them may have completed just now: its callback must not be deleted.
        settle(old);
        return tables.sql("""
                DELETE FROM ~.forge_job_batches WHERE id = ANY (ARRAY(
                    SELECT b.id FROM ~.forge_job_batches b WHERE b.id = ANY (:old::uuid[]) AND %s FOR UPDATE SKIP LOCKED))
                """.formatted(PURGEABLE))
                .param("retention", retention.toMillis())
                .param("old", old.toArray(UUID[]::new))
                .update();
    }

    private static final String PURGEABLE = """
            coalesce(greatest(b.succeeded_at, b.retried_at) < now() - :retention * interval '1 millisecond', true)
            AND NOT EXISTS (SELECT FROM ~.forge_job_batches p WHERE p.id = b.parent_id) AND NOT %s
            """.formatted(exists(ACTIVE));
}

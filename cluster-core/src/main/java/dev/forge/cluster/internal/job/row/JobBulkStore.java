// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.function.IntConsumer;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;
import javax.sql.DataSource;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionOperations;

/**
 * Changes batches of jobs, each in a transaction of its own. A statement locks the rows in the order of their ids and skips those that
 * are locked; it checks the filter again, because jobs may have changed since they were found.
 */
public final class JobBulkStore {

    private final Tables tables;
    private final TransactionOperations separate;

    public JobBulkStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.separate = OwnTransactions.separate(source);
    }

    /**
     * The jobs to change.
     *
     * @param filter what they must still match
     * @param reserved prefixes of names whose jobs stay as they are
     * @param changed called with the number of changed jobs, in each transaction before its commit
     * @param committed called with that number after each commit
     */
    public record Batch(
            List<UUID> ids, JobFilter filter, List<String> reserved, IntConsumer changed, IntConsumer committed) {

        /** Returns a part of this batch. */
        public Batch of(List<UUID> part) {
            return new Batch(part, filter, reserved, changed, committed);
        }
    }

    /** How long a statement waits for rows besides those of the jobs, in milliseconds. */
    private static final int PATIENCE = 5_000;

    /** How long a statement about one of many jobs waits for a transaction that has inserted a job with the same key. */
    private static final int PATIENCE_FOR_KEY = 100;

    /** Selects and locks the jobs of a batch that can be changed. */
    private static String picked(String condition) {
        return picked(condition, PATIENCE);
    }

    private static String picked(String condition, int patience) {
        return """
                WITH picked AS MATERIALIZED (
                    SELECT j.id, j.status, j.unique_key
                    FROM set_config('lock_timeout', '%d', true) AS patience, ~.forge_jobs j
                    WHERE j.id = ANY (:ids::uuid[]) AND %s AND %s
                      AND NOT EXISTS (SELECT FROM unnest(:reserved::text[]) AS r (prefix) WHERE starts_with(j.name, r.prefix))
                    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED)
                """.formatted(patience, condition, JobConditions.MATCHES);
    }

    private static final String CANCEL = picked("j.status IN " + JobRows.ACTIVE)
            + JobCancelStore.cancelling(null, "FROM picked p WHERE j.id = p.id");

    /** Cancels active jobs. */
    public List<CancelledJob> cancel(Batch batch) {
        return in(
                batch,
                () -> statement(CANCEL, batch).query(JobCancelStore::cancelled).list(),
                List::size);
    }

    // Jobs with a key one by one: another job may have it, or two jobs of the batch have the same.
    private static final String RETRY = picked(JobRestartStore.RESTARTABLE)
            + """
            , restarted AS (%s RETURNING j.id)
            SELECT p.id, p.unique_key IS NOT NULL FROM picked p
            WHERE p.unique_key IS NOT NULL OR p.id IN (SELECT id FROM restarted)
            """.formatted(JobRestartStore.restarting("", "FROM picked p WHERE j.id = p.id AND p.unique_key IS NULL"));

    private static final String RETRY_KEYED =
            picked(JobRestartStore.RESTARTABLE + " AND " + JobRestartStore.KEY_IS_FREE, PATIENCE_FOR_KEY)
                    + JobRestartStore.restarting("", "FROM picked p WHERE j.id = p.id");

    /** Restarts failed, cancelled and abandoned jobs, each with a key in a transaction of its own. */
    public void retry(Batch batch) {
        var keyed = new ArrayList<UUID>();
        in(
                batch,
                () -> {
                    int[] restarted = {0};
                    statement(RETRY, batch).query(row -> {
                        if (row.getBoolean(2)) {
                            keyed.add(row.getObject(1, UUID.class));
                        } else {
                            restarted[0]++;
                        }
                    });
                    return restarted[0];
                },
                restarted -> restarted);
        keyed.forEach(id -> retryKeyed(batch.of(List.of(id))));
    }

    private void retryKeyed(Batch batch) {
        try {
            in(batch, () -> statement(RETRY_KEYED, batch).update(), restarted -> restarted);
        } catch (DataAccessException e) {
            // Another job has got the key meanwhile, or may get it with a transaction that is still open.
            if (!(e instanceof DuplicateKeyException) && DatabaseFailure.kind(e) != Kind.LOCK_TIMEOUT) {
                throw e;
            }
        }
    }

    // A job in the past would overtake all others, and claims begin where the last one ended. Jobs that are due stay
    // where they are.
    private static final String RESCHEDULE = picked("""
            j.status = 'pending' AND j.scheduled_at <> :at AND greatest(j.scheduled_at, :at) > clock_timestamp()""") + """
            , moved AS (
                UPDATE ~.forge_jobs j SET scheduled_at = greatest(:at, clock_timestamp()) FROM picked p WHERE j.id = p.id RETURNING 1)
            SELECT (SELECT count(*) FROM moved),
                   (SELECT count(*) FROM ~.forge_jobs j
                    WHERE j.id = ANY (:ids::uuid[]) AND j.status = 'pending'
                      AND (j.scheduled_at = :at OR greatest(j.scheduled_at, :at) <= clock_timestamp()))
            """;

    /**
     * The jobs of a batch that were changed.
     *
     * @param unaffected those that need no change
     */
    public record Changed(int jobs, int unaffected) {}

    /** Makes pending jobs due at another time. */
    public Changed reschedule(Batch batch, Instant at) {
        return in(
                batch,
                () -> statement(RESCHEDULE, batch)
                        .param("at", at.atOffset(ZoneOffset.UTC))
                        .query((row, n) -> new Changed(row.getInt(1), row.getInt(2)))
                        .single(),
                Changed::jobs);
    }

    /**
     * Deletes jobs that have ended, with their logs; returns how many.
     *
     * @param awaited an SQL condition on jobs {@code j} that must stay; empty: none
     */
    public int delete(Batch batch, String awaited) {
        String condition = "j.status NOT IN %s AND NOT (%s OR %s)"
                .formatted(JobRows.ACTIVE, awaited.isEmpty() ? "false" : awaited, JobDependencyStore.FAILED_FOR_OTHERS);
        String sql = picked(condition) + """
                , %s, logs AS (DELETE FROM ~.forge_job_logs WHERE job_id = ANY (ARRAY(SELECT id FROM deleted)))
                SELECT count(*) FROM deleted
                """.formatted(JobPurgeStore.deleting("USING picked p WHERE j.id = p.id"));
        return in(batch, () -> statement(sql, batch).query(Integer.class).single(), deleted -> deleted);
    }

    private JdbcClient.StatementSpec statement(String sql, Batch batch) {
        return tables.sql(sql)
                .params(JobConditions.parameters(batch.filter, JobConditions.statuses(batch.filter)))
                .param("ids", batch.ids.toArray(UUID[]::new))
                .param("reserved", batch.reserved.toArray(String[]::new));
    }

    private <T> T in(Batch batch, Supplier<T> work, ToIntFunction<T> count) {
        T result = Objects.requireNonNull(separate.execute(status -> {
            T changed = work.get();
            // Otherwise the commit would find out, together with the entry in the audit trail.
            tables.sql("SET CONSTRAINTS ALL IMMEDIATE").update();
            batch.changed.accept(count.applyAsInt(changed));
            return changed;
        }));
        batch.committed.accept(count.applyAsInt(result));
        return result;
    }
}

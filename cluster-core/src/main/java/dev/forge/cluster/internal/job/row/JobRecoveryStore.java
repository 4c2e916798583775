// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Takes jobs from nodes that are dead, silent or unable to read them, and makes them pending again or gives them up. */
public final class JobRecoveryStore {

    /** How long row {@code %s} has had no heartbeat; tolerates a value that was edited by hand. */
    private static final String SILENT_MILLIS = """
            CASE WHEN isfinite(%1$s.last_heartbeat)
                THEN (extract(epoch FROM clock_timestamp() - %1$s.last_heartbeat) * 1000)::bigint ELSE 0 END""";

    private static final String HISTORY_WITH_LOST_NODE = JobRows.historyWith(
            "'node-lost'",
            "CASE WHEN isfinite(j.started_at) THEN (extract(epoch FROM clock_timestamp() - j.started_at) * 1000)::bigint END",
            "'the node died, left or did not renew the lease in time'");

    private static final String OVERDUE = """
            SELECT j.id, j.worker_id, j.last_heartbeat FROM ~.forge_jobs j
            WHERE j.status IN %s
              AND (NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = j.worker_id AND n.status <> 'dead')
                   OR NOT :grace AND (j.lease_expires_at < clock_timestamp()
                       OR j.status = 'claimed'
                          AND j.claimed_at < clock_timestamp() - :unstarted * interval '1 millisecond'))
              AND j.id > :after::uuid
            """.formatted(JobRows.HELD);

    private static final UUID FIRST = new UUID(0, 0);

    private final Tables tables;

    public JobRecoveryStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * What a node crash costs a job.
     *
     * @param spendsAttempt whether it counts as a failed attempt
     * @param maxAttempts for jobs without a value of their own
     * @param maxRecoveries how many recoveries a job survives
     */
    public record CrashRule(boolean spendsAttempt, int maxAttempts, int maxRecoveries) {}

    /**
     * A job that was taken from its node.
     *
     * @param error the recorded error, shortened; null if the job is pending again
     */
    public record Recovered(
            UUID id,
            String name,
            @Nullable UUID node,
            long silentMillis,
            int recoveries,
            JobStatus status,
            @Nullable String error) {}

    /** The error of a job that has ended; those of pending jobs are not needed. */
    private static final String ERROR = "CASE WHEN j.status <> 'pending' THEN left(j.last_error, 2000) END";

    private static Recovered recovered(ResultSet row, @Nullable UUID node) throws SQLException {
        return new Recovered(
                row.getObject(1, UUID.class),
                row.getString(2),
                node,
                row.getLong(3),
                row.getInt(4),
                EnumText.parse(JobStatus.class, row.getString(5)),
                row.getString(6));
    }

    /** Takes jobs from a dead node, in the caller's transaction. Leaves locked rows, and those beyond the limit, to the sweep. */
    public List<Recovered> recoverFrom(UUID node, CrashRule crash, int limit) {
        return tables.sql("""
                UPDATE ~.forge_jobs j SET %s
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs WHERE worker_id = ? AND status IN ('claimed', 'running')
                    ORDER BY id LIMIT (SELECT ?::int) FOR UPDATE SKIP LOCKED))
                RETURNING j.id, j.name, %s, j.recoveries, j.status, %s
                """.formatted(recovery(crash), silentMillis("j"), ERROR))
                .params(node, limit)
                .query((row, n) -> recovered(row, node))
                .list();
    }

    /**
     * Jobs that are to be taken from their nodes, in the order of their ids: those of nodes that are dead or gone and, unless {@code
     * grace} is set, those whose lease has expired or that were claimed too long ago without a start.
     *
     * @param claimStartTimeout how long ago is too long
     * @param after only jobs with larger ids; null: all
     * @param limit how many of them
     */
    public record Overdue(
            Duration claimStartTimeout,
            boolean grace,
            @Nullable UUID after,
            int limit) {}

    /** Takes overdue jobs from their nodes. One statement locks the rows and decides; leaves out locked rows. */
    public List<Recovered> sweep(CrashRule rule, Overdue overdue) {
        return sweep(rule, overdue, null);
    }

    /** Returns the jobs that {@link #sweep(CrashRule, Overdue)} would take now, including those whose rows are locked. */
    public List<UUID> overdue(Overdue overdue) {
        return overdue(
                        "SELECT id FROM (%s ORDER BY j.id LIMIT (SELECT :limit::int)) AS overdue".formatted(OVERDUE),
                        overdue)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /**
     * Takes overdue jobs from their nodes.
     *
     * @param among only these jobs; null: all jobs
     */
    public List<Recovered> sweep(CrashRule rule, Overdue overdue, @Nullable Collection<UUID> among) {
        return overdue("""
                WITH overdue AS MATERIALIZED (
                    %s AND (:among::uuid[] IS NULL OR j.id = ANY (:among::uuid[]))
                    ORDER BY j.id LIMIT (SELECT :limit::int) FOR UPDATE SKIP LOCKED)
                UPDATE ~.forge_jobs j SET %s
                FROM overdue o WHERE j.id = o.id
                RETURNING j.id, j.name, %s, j.recoveries, j.status, %s, o.worker_id
                """.formatted(OVERDUE, recovery(rule), silentMillis("o"), ERROR), overdue)
                .param("among", among == null ? null : among.toArray(UUID[]::new), Types.ARRAY)
                .query((row, n) -> recovered(row, row.getObject(7, UUID.class)))
                .list();
    }

    private JdbcClient.StatementSpec overdue(String sql, Overdue overdue) {
        return tables.sql(sql)
                .param("grace", overdue.grace)
                .param("unstarted", overdue.claimStartTimeout.toMillis())
                .param("after", overdue.after == null ? FIRST : overdue.after)
                .param("limit", overdue.limit);
    }

    /**
     * Returns a claimed job that cannot be read. That counts as a crash of its node, so that a job which no node can read is
     * abandoned. Empty if this node no longer holds the job.
     *
     * @param reason why; becomes the last error of the job
     */
    public Optional<Recovered> returnUnreadable(UUID node, ClaimKey key, CrashRule rule, String reason) {
        return tables.sql("""
                UPDATE ~.forge_jobs j SET %s
                WHERE j.id = :id AND j.claim_epoch = :epoch AND j.worker_id = :node AND j.status IN %s
                RETURNING j.id, j.name, 0, j.recoveries, j.status, %s
                """.formatted(
                                recovery(rule, "true", ":reason", ":reason", "j.attempt_history"), JobRows.HELD, ERROR))
                .param("id", key.id())
                .param("epoch", key.epoch())
                .param("node", node)
                .param("reason", reason)
                .query((row, n) -> recovered(row, node))
                .optional();
    }

    /**
     * Returns jobs that this node holds according to the table but not according to its memory: the response to a claim was lost.
     *
     * @param known the jobs that the node does know
     * @param age only jobs claimed longer ago, so that claims in progress are left alone
     */
    public int returnUnknown(UUID node, Collection<UUID> known, Duration age) {
        return tables.sql("""
                UPDATE ~.forge_jobs j SET %s
                WHERE j.id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE worker_id = :node AND status IN %2$s AND id <> ALL (:known::uuid[])
                      AND claimed_at < clock_timestamp() - :age * interval '1 millisecond'
                    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
                  AND j.worker_id = :node AND j.status IN %2$s
                """.formatted(HeldJobStore.GIVEN_BACK, JobRows.HELD))
                .param("node", node)
                .param("known", known.toArray(UUID[]::new))
                .param("age", age.toMillis())
                .update();
    }

    private static String silentMillis(String alias) {
        return SILENT_MILLIS.formatted(alias);
    }

    /** Returns the SET clause for a row {@code j} that is taken from its node. */
    private static String recovery(CrashRule rule) {
        String reason = rule.spendsAttempt
                ? "'the node failed during the last attempt'"
                : "'abandoned after more than %d node failures; see forge.cluster.job.max-recoveries'"
                        .formatted(rule.maxRecoveries);
        String history =
                "CASE WHEN j.status = 'running' THEN %s ELSE j.attempt_history END".formatted(HISTORY_WITH_LOST_NODE);
        return recovery(rule, "j.status = 'running'", reason, "j.last_error", history);
    }

    /**
     * Returns the SET clause for a row {@code j} that is taken from its node.
     *
     * @param counts whether the recovery counts, in SQL
     * @param last the error to keep if the job is given up, in SQL
     * @param earlier the error to keep otherwise, in SQL
     * @param history the attempt history to keep, in SQL
     */
    private static String recovery(CrashRule rule, String counts, String last, String earlier, String history) {
        String over = counts
                + (rule.spendsAttempt
                        ? " AND j.attempts >= coalesce(j.max_attempts, %d)".formatted(rule.maxAttempts)
                        : " AND j.recoveries >= %d".formatted(rule.maxRecoveries));
        return """
                status = CASE WHEN %1$s THEN '%2$s' ELSE 'pending' END,
                finished_at = CASE WHEN %1$s THEN clock_timestamp() END,
                last_error = CASE WHEN %1$s THEN %3$s ELSE %6$s END,
                recoveries = least(greatest(j.recoveries, 0), %8$d - 1) + CASE WHEN %5$s THEN 1 ELSE 0 END,
                attempts = greatest(greatest(j.attempts, 0) - CASE WHEN %5$s AND %4$s THEN 0 ELSE 1 END, 0),
                attempt_history = %7$s,
                -- A job that makes its nodes crash must not crash the next one immediately, and jobs that ran beside it
                -- should not run beside it again.
                scheduled_at = greatest(j.scheduled_at, clock_timestamp() + interval '500 milliseconds'
                                   + random() * j.recoveries * interval '2 seconds'),
                worker_id = NULL, lease_expires_at = NULL, started_at = NULL
                """.formatted(
                        over,
                        rule.spendsAttempt ? "failed" : "abandoned",
                        last,
                        rule.spendsAttempt,
                        counts,
                        earlier,
                        history,
                        JobRows.MOST_COUNTED);
    }
}

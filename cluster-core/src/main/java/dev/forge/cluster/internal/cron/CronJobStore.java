// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static dev.forge.cluster.internal.cron.CronStore.instant;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Finds, cancels and reroutes the jobs that crons have enqueued. */
final class CronJobStore {

    private static final String ACTIVE = "('pending', 'claimed', 'running')";

    private final Schema schema;
    private final JdbcClient client;

    CronJobStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * A run that has not finished.
     *
     * @param slot its slot; null if its metadata has none
     * @param since when it started; for a pending run, the time before which it does not start
     */
    record UnfinishedRun(
            UUID job,
            JobStatus status,
            int attempts,
            @Nullable String slot,
            Instant since) {

        /** Returns whether the run has failed and waits for its next attempt. */
        boolean isRetry() {
            return status == JobStatus.PENDING && attempts > 0;
        }
    }

    /**
     * Returns those jobs that have not finished, by id. Called after their crons were locked, as a statement of its own: a
     * statement that waits for a lock sees the new version of the locked row, but other rows as they were before.
     */
    Map<UUID, UnfinishedRun> unfinishedRuns(Collection<UUID> jobs) {
        if (jobs.isEmpty()) {
            return Map.of();
        }
        return client
                .sql(schema.sql("""
                SELECT id, status, attempts, metadata ->> 'slot',
                       CASE status WHEN 'pending' THEN scheduled_at ELSE coalesce(started_at, claimed_at, now()) END
                FROM ~.forge_jobs WHERE id = ANY (:ids) AND status IN %s
                """.formatted(ACTIVE)))
                .param("ids", jobs.toArray(UUID[]::new))
                .query((row, n) -> new UnfinishedRun(
                        row.getObject(1, UUID.class),
                        EnumText.parse(JobStatus.class, row.getString(2)),
                        row.getInt(3),
                        row.getString(4),
                        instant(row, 5)))
                .list()
                .stream()
                .collect(Collectors.toMap(UnfinishedRun::job, Function.identity()));
    }

    /** Cancels runs that wait for their next attempt, unless a node has claimed them; returns the cancelled ones. */
    Set<UUID> cancelRetries(Collection<UUID> jobs, String reason) {
        return cancel(jobs, "attempts > 0", reason);
    }

    /** Cancels the latest run of a cron if its jitter delays it still. */
    void cancelNotStarted(String cron, String reason) {
        client.sql(schema.sql("SELECT last_job_id FROM ~.forge_crons WHERE name = ? AND last_job_id IS NOT NULL"))
                .param(cron)
                .query(UUID.class)
                .optional()
                .ifPresent(job -> cancel(List.of(job), "attempts = 0 AND scheduled_at > clock_timestamp()", reason));
    }

    private Set<UUID> cancel(Collection<UUID> jobs, String condition, String reason) {
        return new HashSet<>(client.sql(schema.sql("""
                UPDATE ~.forge_jobs j
                SET %s, last_error = :reason || coalesce('; ' || last_error, '')
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs WHERE id = ANY (:ids) AND status = 'pending' AND %s
                    ORDER BY id FOR UPDATE SKIP LOCKED))
                RETURNING id
                """.formatted(JobStore.CANCELLED, condition)))
                .param("reason", reason)
                .param("ids", jobs.toArray(UUID[]::new))
                .query(UUID.class)
                .list());
    }

    /**
     * Changes the capability of up to 1,000 pending runs; returns how many. Lets other nodes claim runs that the leader
     * cannot run because it lacks their handler.
     */
    int reroute(Collection<String> handlers, String from, String to) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs SET worker_capability = :to
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE status = 'pending' AND waits_for IS NULL AND name = ANY (:names)
                      AND coalesce(worker_capability, '') = :from
                    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
                """))
                .param("names", handlers.toArray(String[]::new))
                .param("from", from)
                .param("to", to)
                .update();
    }

    /** Returns whether the node still holds the claim; if so, it keeps it until the transaction ends. */
    boolean isClaimedBy(UUID job, long epoch, UUID node) {
        return client.sql(schema.sql("""
                SELECT 1 FROM ~.forge_jobs
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN ('claimed', 'running') FOR SHARE
                """))
                .params(job, epoch, node)
                .query(Integer.class)
                .optional()
                .isPresent();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.store;

import dev.forge.cluster.internal.database.Schema;
import java.sql.Types;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Jobs that run after other jobs, in {@code forge_job_dependencies}. Such a job waits for itself, so that nothing else releases it. The
 * rows of the other jobs decide; nothing counts them.
 */
public final class JobDependencyStore {

    /** Adds the dependencies of new jobs; the parameters are {@code anyway}, the new jobs, and the jobs that they wait for. */
    static final String ADDING = """
            dependency AS (
                INSERT INTO ~.forge_job_dependencies (job_id, after_id, anyway)
                SELECT n.id, a.id, ? FROM unnest(?::uuid[]) AS n (id) CROSS JOIN unnest(?::uuid[]) AS a (id) %s)
            """;

    /** Whether jobs still have to learn that job {@code j} did not complete. Without its row it would count as completed. */
    static final String FAILED_FOR_OTHERS = """
            j.status <> 'completed' AND (SELECT d.job_id FROM ~.forge_job_dependencies d WHERE d.after_id = j.id AND NOT d.anyway
                                         ORDER BY d.job_id LIMIT 1) IS NOT NULL
            """;

    /** Whether jobs wait for a job. The order makes sure that an index is used, even if many jobs wait for one. */
    private static final String AWAITED =
            "(SELECT d.job_id FROM ~.forge_job_dependencies d WHERE d.after_id = %s ORDER BY d.job_id LIMIT 1) IS NOT NULL";

    /** How many waiting jobs one statement decides about, besides those that are given. */
    public static final int MOST_DECIDED = 1_000;

    private final Schema schema;
    private final JdbcClient client;

    public JobDependencyStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** Returns whether any job waits for others. */
    public boolean exist() {
        return client.sql(schema.sql("SELECT EXISTS (SELECT FROM ~.forge_job_dependencies)"))
                .query(Boolean.class)
                .single();
    }

    /**
     * A job that no longer waits.
     *
     * @param batch the batch that it belongs to; null: none
     * @param cancelled whether it was cancelled; otherwise it may run
     * @param awaited whether other jobs wait for it
     */
    public record Decided(UUID id, @Nullable UUID batch, boolean cancelled, boolean awaited) {}

    /**
     * What one statement has decided.
     *
     * @param more whether jobs may be left over that wait for the given ones
     */
    public record Decision(List<Decided> jobs, boolean more) {}

    /**
     * Decides about these jobs, as far as they wait, and about jobs that wait for them. All rows are read by an index, whatever the
     * planner believes about tables that have just grown: without statistics it joins by comparing each waiting job with each candidate,
     * and with those of many jobs that wait for one it expects any job to have so many.
     */
    public Decision decide(Collection<UUID> ids) {
        var more = new AtomicBoolean();
        List<Decided> jobs = client.sql(
                        schema.sql("""
                WITH changed AS MATERIALIZED (SELECT unnest(?::uuid[]) AS id FROM set_config('lock_timeout', '100', true) AS patience),
                dependent AS MATERIALIZED (
                    SELECT d.job_id
                    FROM changed c CROSS JOIN LATERAL (
                        SELECT d.job_id FROM ~.forge_job_dependencies d WHERE d.after_id = c.id ORDER BY d.job_id LIMIT %1$d) d
                    LIMIT %1$d),
                candidate AS MATERIALIZED (SELECT id AS job_id FROM changed UNION SELECT job_id FROM dependent),
                state AS MATERIALIZED (
                    SELECT c.job_id,
                           (SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id
                            ORDER BY d.after_id LIMIT 1) AS any_other,
                           (SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id
                            AND (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN %2$s
                            ORDER BY d.after_id LIMIT 1) AS active,
                           (SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id AND NOT d.anyway
                            AND (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN ('failed', 'cancelled', 'abandoned')
                            ORDER BY d.after_id LIMIT 1) AS bad
                    FROM candidate c
                ), ready AS MATERIALIZED (
                    SELECT j.id, x.bad
                    FROM (SELECT s.job_id, s.bad FROM state s
                          WHERE s.any_other IS NOT NULL AND (s.bad IS NOT NULL OR s.active IS NULL) ORDER BY s.job_id) x
                    CROSS JOIN LATERAL (
                        SELECT j.id FROM ~.forge_jobs j
                        WHERE j.id = x.job_id AND j.waits_for = j.id AND j.status = 'pending' LIMIT 1 FOR UPDATE) j
                ), decided AS (
                    UPDATE ~.forge_jobs j
                    SET waits_for = NULL, status = CASE WHEN x.bad IS NULL THEN j.status ELSE 'cancelled' END,
                        finished_at = CASE WHEN x.bad IS NOT NULL THEN clock_timestamp() END,
                        last_error = CASE WHEN x.bad IS NULL THEN j.last_error
                                          ELSE 'job ' || x.bad || ' had to complete first and did not' END,
                        scheduled_at = greatest(j.scheduled_at, clock_timestamp())
                    FROM ready x WHERE j.id = x.id
                    RETURNING j.id, j.batch_id, x.bad IS NOT NULL AS cancelled
                ), forgotten AS (
                    DELETE FROM ~.forge_job_dependencies d WHERE d.job_id = ANY (ARRAY(SELECT id FROM ready)))
                SELECT x.*, %3$s, (SELECT count(*) FROM dependent) FROM decided x
                """.formatted(MOST_DECIDED, JobRows.ACTIVE, AWAITED.formatted("x.id"))))
                .param(ids.toArray(UUID[]::new))
                .query((row, n) -> {
                    more.set(row.getLong(5) == MOST_DECIDED);
                    return new Decided(
                            row.getObject(1, UUID.class),
                            row.getObject(2, UUID.class),
                            row.getBoolean(3),
                            row.getBoolean(4));
                })
                .list();
        // If all of those that were read still wait, reading them once more would not help; the sweep gets to the
        // others.
        return new Decision(jobs, more.get());
    }

    /** Returns those of these jobs that other jobs wait for. */
    public List<UUID> awaited(Collection<UUID> ids) {
        return client.sql(schema.sql("""
                SELECT i.id FROM unnest(?::uuid[]) AS i (id)
                WHERE %s
                """.formatted(AWAITED.formatted("i.id"))))
                .param(ids.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Returns the next jobs that wait for others, in the order of their ids. */
    public List<UUID> next(@Nullable UUID after, int limit) {
        return client.sql(schema.sql("""
                SELECT DISTINCT job_id FROM ~.forge_job_dependencies
                WHERE job_id > coalesce(:after, '00000000-0000-0000-0000-000000000000'::uuid)
                ORDER BY job_id LIMIT :limit
                """))
                .param("after", after, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Deletes the dependencies of those of these jobs that no longer wait: they were cancelled or deleted. */
    public void forgetOthers(Collection<UUID> ids) {
        client.sql(schema.sql("""
                DELETE FROM ~.forge_job_dependencies d
                WHERE d.job_id = ANY (?::uuid[])
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = d.job_id AND j.waits_for = j.id AND j.status = 'pending')
                """)).param(ids.toArray(UUID[]::new)).update();
    }

    /** Returns jobs that a job waits for, active ones first, up to the limit. */
    public List<UUID> awaited(UUID job, int limit) {
        return client.sql(schema.sql("""
                SELECT d.after_id FROM ~.forge_job_dependencies d
                JOIN ~.forge_jobs j ON j.id = d.after_id AND j.status IN %s
                WHERE d.job_id = ? ORDER BY d.after_id LIMIT ?
                """.formatted(JobRows.ACTIVE)))
                .params(job, limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }
}

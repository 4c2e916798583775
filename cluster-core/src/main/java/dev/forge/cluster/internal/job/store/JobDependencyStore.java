// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.store;

import dev.forge.cluster.internal.database.Schema;
import java.sql.Types;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
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
            j.status <> 'completed' AND EXISTS (SELECT FROM ~.forge_job_dependencies d WHERE d.after_id = j.id AND NOT d.anyway)
            """;

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

    /** Decides about these jobs, as far as they wait, and about jobs that wait for them. */
    public List<Decided> decide(Collection<UUID> ids) {
        return client.sql(schema.sql("""
                WITH changed AS MATERIALIZED (SELECT unnest(?::uuid[]) AS id FROM set_config('lock_timeout', '100', true) AS patience),
                candidate AS MATERIALIZED (
                    SELECT id AS job_id FROM changed
                    UNION (SELECT d.job_id FROM ~.forge_job_dependencies d
                           WHERE d.after_id = ANY (ARRAY(SELECT id FROM changed)) LIMIT %1$d)),
                decision AS MATERIALIZED (
                    SELECT c.job_id,
                           EXISTS (SELECT FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id
                                   AND (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN %2$s) AS waits,
                           (SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id AND NOT d.anyway
                            AND (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN ('failed', 'cancelled', 'abandoned')
                            LIMIT 1) AS bad
                    FROM candidate c
                    WHERE EXISTS (SELECT FROM ~.forge_job_dependencies d WHERE d.job_id = c.job_id)
                ), decided AS (
                    UPDATE ~.forge_jobs j
                    SET waits_for = NULL, status = CASE WHEN x.bad IS NULL THEN j.status ELSE 'cancelled' END,
                        finished_at = CASE WHEN x.bad IS NOT NULL THEN clock_timestamp() END,
                        last_error = CASE WHEN x.bad IS NULL THEN j.last_error
                                          ELSE 'job ' || x.bad || ' had to complete first and did not' END,
                        scheduled_at = greatest(j.scheduled_at, clock_timestamp())
                    FROM decision x
                    WHERE j.id = x.job_id AND j.waits_for = x.job_id AND j.status = 'pending' AND (x.bad IS NOT NULL OR NOT x.waits)
                    RETURNING j.id, j.batch_id, x.bad IS NOT NULL AS cancelled
                ), forgotten AS (
                    DELETE FROM ~.forge_job_dependencies d USING decided x WHERE d.job_id = x.id)
                SELECT x.*, EXISTS (SELECT FROM ~.forge_job_dependencies d WHERE d.after_id = x.id) FROM decided x
                """.formatted(MOST_DECIDED, JobRows.ACTIVE)))
                .param(ids.toArray(UUID[]::new))
                .query((row, n) -> new Decided(
                        row.getObject(1, UUID.class),
                        row.getObject(2, UUID.class),
                        row.getBoolean(3),
                        row.getBoolean(4)))
                .list();
    }

    /** Returns those of these jobs that other jobs wait for. */
    public List<UUID> awaited(Collection<UUID> ids) {
        return client.sql(schema.sql("""
                SELECT i.id FROM unnest(?::uuid[]) AS i (id)
                WHERE EXISTS (SELECT FROM ~.forge_job_dependencies d WHERE d.after_id = i.id)
                """))
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

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

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

    /** The statuses of jobs that have ended without completing. */
    private static final String UNSUCCESSFUL = "('failed', 'cancelled', 'abandoned')";

    /** How many waiting jobs one statement reads or decides about. */
    public static final int MOST_JOBS = 1_000;

    /** How many dependencies one statement reads or deletes. */
    public static final int MOST_DEPENDENCIES = 20_000;

    private final Tables tables;

    public JobDependencyStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** Returns whether any job waits for others. */
    public boolean exist() {
        return tables.sql("SELECT EXISTS (SELECT FROM ~.forge_job_dependencies)")
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
     * A job that waits for one of the given jobs, or is one of them.
     *
     * @param given the number of the given job, from 1
     * @param own whether it is the given job, which waits for others
     * @param failed whether the given job had to complete and did not
     */
    public record Waiter(int given, UUID job, boolean own, boolean failed) {}

    /**
     * Returns the jobs that wait for these ones, up to {@link #MOST_JOBS}, in the order of the given jobs and then of their own ids;
     * before them each given job that waits itself.
     *
     * @param after the last job that is known to wait for the first of the given jobs; null: none
     */
    public List<Waiter> waiters(Collection<UUID> ids, @Nullable UUID after) {
        return tables.sql("""
                SELECT c.n, d.job_id, d.own, c.failed AND NOT d.anyway
                FROM (SELECT u.id, u.n, CASE WHEN u.n = 1 THEN :after::uuid END AS after,
                             coalesce((SELECT j.status FROM ~.forge_jobs j WHERE j.id = u.id) IN %2$s, false) AS failed
                      FROM unnest(:ids::uuid[]) WITH ORDINALITY AS u (id, n) OFFSET 0) AS c
                CROSS JOIN LATERAL (
                    (SELECT d.job_id, true AS own, true AS anyway FROM ~.forge_job_dependencies d
                     WHERE c.after IS NULL AND d.job_id = c.id ORDER BY d.after_id LIMIT 1)
                    UNION ALL
                    (SELECT d.job_id, false, d.anyway FROM ~.forge_job_dependencies d
                     WHERE d.after_id = c.id AND d.job_id > coalesce(c.after, '00000000-0000-0000-0000-000000000000'::uuid)
                     ORDER BY d.job_id LIMIT %1$d)) AS d
                LIMIT %1$d
                """.formatted(MOST_JOBS, UNSUCCESSFUL))
                .param("after", after, Types.OTHER)
                .param("ids", ids.toArray(UUID[]::new))
                .query((row, n) ->
                        new Waiter(row.getInt(1), row.getObject(2, UUID.class), row.getBoolean(3), row.getBoolean(4)))
                .list();
    }

    /**
     * A job that may wait.
     *
     * @param failed a job that it waits for, which had to complete and did not; null: none is known
     * @param whole whether failed jobs are looked for even while others are active
     */
    public record Candidate(UUID id, @Nullable UUID failed, boolean whole) {}

    /**
     * What one statement has decided.
     *
     * @param examined how many of the candidates it has examined, at least one: the first ones
     */
    public record Decision(List<Decided> jobs, int examined) {}

    /** Whether one of the jobs that candidate {@code g} waits for is active, among the first ones of an order. */
    private static final String WAITS = """
            (SELECT true FROM (SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = g.id ORDER BY d.after_id %s LIMIT %d) AS d
             WHERE (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN %s LIMIT 1)""";

    /**
     * Decides about jobs, as far as they wait. Most of them still wait, which the jobs that were enqueued last and therefore end last
     * show, or the first ones. All dependencies of the others are read: as many as one statement may, which are then also the most
     * that it deletes.
     *
     * <p>All rows are read by an index, whatever the planner believes about tables that have just grown: without statistics it joins
     * by comparing each waiting job with each candidate, and with those of many jobs that wait for one it expects any job to have so
     * many.
     *
     * @param candidates distinct jobs
     * @param dependencies how many dependencies are read
     */
    public Decision decide(List<Candidate> candidates, int dependencies) {
        int[] examined = {0};
        var jobs = new ArrayList<Decided>();
        tables.sql("""
                WITH given AS MATERIALIZED (
                    SELECT u.* FROM set_config('lock_timeout', '100', true) AS patience,
                                    unnest(:ids::uuid[], :failed::uuid[], :whole::boolean[]) WITH ORDINALITY AS u (id, failed, whole, n)
                    ORDER BY u.n
                ), dependency AS MATERIALIZED (
                    SELECT c.n, c.id, c.failed, d.after_id, d.anyway, d.place,
                           CASE WHEN c.failed IS NULL THEN (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) END AS status
                    FROM (SELECT g.n, g.id, g.whole, coalesce(%1$s, %2$s, false) AS waits,
                                 (SELECT d.after_id FROM ~.forge_job_dependencies d
                                  WHERE d.job_id = g.id AND d.after_id = g.failed AND NOT d.anyway
                                    AND (SELECT j.status FROM ~.forge_jobs j WHERE j.id = d.after_id) IN %3$s) AS failed
                          FROM given g OFFSET 0) AS c
                    CROSS JOIN LATERAL (
                        -- A range, because the planner may expect a large part of the table for an equal value.
                        (SELECT d.after_id, d.anyway, d.ctid AS place FROM ~.forge_job_dependencies d
                         WHERE d.job_id BETWEEN c.id AND c.id ORDER BY d.job_id, d.after_id)
                        -- Shows that all of them were read.
                        UNION ALL SELECT NULL, NULL, NULL) AS d
                    WHERE c.whole OR c.failed IS NOT NULL OR NOT c.waits
                    LIMIT :dependencies
                ), state AS MATERIALIZED (
                    SELECT d.n, d.id, array_agg(d.place) FILTER (WHERE d.place IS NOT NULL) AS places,
                           coalesce(bool_or(d.status IN %4$s), false) AS waits,
                           coalesce(d.failed, (array_agg(d.after_id) FILTER (WHERE NOT d.anyway AND d.status IN %3$s))[1]) AS failed
                    FROM dependency d GROUP BY d.n, d.id, d.failed HAVING bool_or(d.place IS NULL)
                ), ready AS MATERIALIZED (
                    SELECT j.id, x.failed, x.places
                    FROM (SELECT s.id, s.failed, s.places FROM state s
                          WHERE s.places IS NOT NULL AND (s.failed IS NOT NULL OR NOT s.waits) ORDER BY s.id) AS x
                    CROSS JOIN LATERAL (
                        SELECT j.id FROM ~.forge_jobs j
                        WHERE j.id = x.id AND j.waits_for = j.id AND j.status = 'pending' LIMIT 1 FOR UPDATE) AS j
                ), decided AS (
                    UPDATE ~.forge_jobs j
                    SET %6$s, status = CASE WHEN x.failed IS NULL THEN j.status ELSE 'cancelled' END,
                        finished_at = CASE WHEN x.failed IS NOT NULL THEN clock_timestamp() END,
                        last_error = CASE WHEN x.failed IS NULL THEN j.last_error
                                          ELSE 'job ' || x.failed || ' had to complete first and did not' END
                    FROM ready x WHERE j.id = x.id
                    RETURNING j.id, j.batch_id, x.failed IS NOT NULL AS cancelled
                ), forgotten AS (
                    DELETE FROM ~.forge_job_dependencies d WHERE d.ctid = ANY (ARRAY(SELECT unnest(r.places) FROM ready r)))
                SELECT e.examined, x.id, x.batch_id, x.cancelled, %5$s
                FROM (SELECT CASE WHEN (SELECT count(*) FROM dependency) < :dependencies THEN cardinality(:ids::uuid[])
                                  ELSE (SELECT max(n) FROM state) END AS examined) AS e
                LEFT JOIN decided x ON true
                """.formatted(
                                WAITS.formatted("DESC", 8, JobRows.ACTIVE),
                                WAITS.formatted("", 2, JobRows.ACTIVE),
                                UNSUCCESSFUL,
                                JobRows.ACTIVE,
                                AWAITED.formatted("x.id"),
                                JobReleaseStore.FREED))
                .param("ids", candidates.stream().map(Candidate::id).toArray(UUID[]::new))
                .param("failed", candidates.stream().map(Candidate::failed).toArray(UUID[]::new))
                .param("whole", candidates.stream().map(Candidate::whole).toArray(Boolean[]::new))
                .param("dependencies", dependencies)
                .query(row -> {
                    examined[0] = row.getInt(1);
                    UUID id = row.getObject(2, UUID.class);
                    if (id != null) {
                        jobs.add(new Decided(id, row.getObject(3, UUID.class), row.getBoolean(4), row.getBoolean(5)));
                    }
                });
        return examined[0] > 0
                ? new Decision(jobs, examined[0])
                // The first one has more dependencies: an application cannot make such a job, a manual INSERT can.
                : decide(candidates.subList(0, 1), 10 * dependencies);
    }

    /** Returns the next jobs that wait for others, in the order of their ids. Steps from job to job: each may wait for many. */
    public List<UUID> next(@Nullable UUID after, int limit) {
        return tables.sql("""
                WITH RECURSIVE step AS (
                    SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'::uuid) AS job_id, 0 AS n
                    UNION ALL
                    SELECT (SELECT d.job_id FROM ~.forge_job_dependencies d WHERE d.job_id > s.job_id ORDER BY d.job_id LIMIT 1), s.n + 1
                    FROM step s WHERE s.job_id IS NOT NULL AND s.n < :limit)
                SELECT job_id FROM step WHERE n > 0 AND job_id IS NOT NULL ORDER BY n
                """)
                .param("after", after, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /**
     * Deletes dependencies of those of these jobs that no longer wait: they were cancelled or deleted. Returns how many it has deleted,
     * up to {@link #MOST_DEPENDENCIES}.
     */
    public int forgetOthers(Collection<UUID> ids) {
        return tables.sql("""
                DELETE FROM ~.forge_job_dependencies WHERE ctid = ANY (ARRAY(
                    SELECT d.ctid
                    FROM (SELECT u.id FROM unnest(?::uuid[]) AS u (id)
                          WHERE (SELECT j.id FROM ~.forge_jobs j
                                 WHERE j.id = u.id AND j.waits_for = j.id AND j.status = 'pending') IS NULL OFFSET 0) AS o
                    CROSS JOIN LATERAL (
                        SELECT d.ctid FROM ~.forge_job_dependencies d
                        WHERE d.job_id BETWEEN o.id AND o.id ORDER BY d.job_id, d.after_id LIMIT %1$d) AS d
                    LIMIT %1$d))
                """.formatted(MOST_DEPENDENCIES))
                .param(ids.toArray(UUID[]::new))
                .update();
    }

    /** Returns jobs that a job waits for, active ones first, up to the limit. */
    public List<UUID> awaited(UUID job, int limit) {
        return tables.sql("""
                SELECT d.after_id FROM ~.forge_job_dependencies d
                JOIN ~.forge_jobs j ON j.id = d.after_id AND j.status IN %s
                WHERE d.job_id = ? ORDER BY d.after_id LIMIT ?
                """.formatted(JobRows.ACTIVE))
                .params(job, limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }
}

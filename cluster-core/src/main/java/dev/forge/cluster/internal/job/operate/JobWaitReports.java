// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.Queue;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Counts the jobs that limits keep waiting, for metrics. */
public final class JobWaitReports {

    /** How many names with limits are considered, and how many groups of each. */
    private static final int MOST_NAMES = 1_000;

    private static final int MOST_GROUPS = 1_000;

    /** How many due jobs of one group are counted: a long backlog of one group must not hide the others. */
    private static final int MOST_OF_GROUP = 1_000;

    private final Schema schema;
    private final JdbcClient client;

    public JobWaitReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** The limit that keeps a job waiting, in the words of {@link dev.forge.cluster.job.operations.JobExplanation.Reason}. */
    public enum Reason {
        WAITING_FOR_ORDER,
        GROUP_FULL,
        NAME_FULL,
        GROUP_RATE
    }

    /**
     * The jobs of a name with limits.
     *
     * @param concurrency the number of its jobs that may run at the same time; null: any number
     * @param held the number of its jobs that nodes hold
     * @param waiting the due jobs that a limit keeps waiting, by the limit that explains them first
     */
    public record LimitedName(String name, @Nullable Integer concurrency, long held, Map<Reason, Long> waiting) {}

    /**
     * Returns the first thousand names with limits, those that a node has or had a handler for before others. Of each name at most {@link JobReports#MOST_COUNTED} due jobs in up to a thousand groups are
     * considered, and at most a thousand of each group.
     *
     * @param aliases other names of handlers, with the name of the handler: the limits apply to their jobs, too
     */
    public List<LimitedName> limitedNames(Map<String, String> aliases) {
        List<String> others = List.copyOf(aliases.keySet());
        return client.sql(schema.sql("""
                WITH limited AS MATERIALIZED (
                    SELECT l.*, (SELECT count(*) FROM ~.forge_jobs j WHERE j.status IN %1$s AND j.name = ANY (l.names)) AS held
                    FROM (SELECT d.name, d.concurrency, d.ordered,
                                 CASE WHEN d.ordered THEN 1 ELSE d.group_concurrency END AS group_concurrency,
                                 d.group_period / d.group_rate AS spacing, d.group_burst AS burst,
                                 d.name || ARRAY(SELECT a.alias FROM unnest(:aliases::text[], :handlers::text[]) AS a (alias, handler)
                                                 WHERE a.handler = d.name) AS names
                          FROM ~.forge_job_limits d
                          WHERE d.ordered OR num_nonnulls(d.concurrency, d.group_concurrency, d.group_rate) > 0
                          ORDER BY NOT EXISTS (SELECT FROM ~.forge_job_names k WHERE k.name = d.name), d.name
                          LIMIT %2$d) AS l
                )
                SELECT l.name, l.concurrency, l.held, g.ordered, g.group_full,
                       g.name_full + CASE WHEN l.held >= l.concurrency THEN (
                           -- Jobs without a group. The limit is one that the planner does not know, see JobPurgeStore.
                           SELECT count(*) FILTER (WHERE due) FROM unnest(l.names) AS n (name)
                           CROSS JOIN LATERAL (
                               SELECT j.job_group IS NULL AND j.scheduled_at <= now() AS due FROM ~.forge_jobs j
                               WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = n.name
                               ORDER BY coalesce(j.worker_capability, ''), %5$s DESC, j.scheduled_at
                               LIMIT (SELECT %4$d)) AS few) ELSE 0 END,
                       g.group_rate
                FROM limited l
                CROSS JOIN LATERAL (
                    SELECT coalesce(sum(c.later), 0) AS ordered,
                           coalesce(sum(c.due - c.later) FILTER (WHERE c.full), 0) AS group_full,
                           coalesce(sum(c.due - c.later) FILTER (WHERE NOT c.full AND l.held >= l.concurrency), 0) AS name_full,
                           coalesce(sum(c.due - c.later) FILTER (
                               WHERE NOT c.full AND coalesce(l.held < l.concurrency, true) AND c.slow), 0) AS group_rate
                    FROM (
                        SELECT d.due, CASE WHEN l.ordered THEN d.due - CASE WHEN first.startable THEN 1 ELSE 0 END ELSE 0 END AS later,
                               coalesce(l.group_concurrency <= (
                                   SELECT count(*) FROM ~.forge_jobs j
                                   WHERE j.status IN %1$s AND j.name = ANY (l.names) AND j.job_group = d.job_group), false) AS full,
                               EXISTS (
                                   SELECT FROM ~.forge_job_rates r
                                   WHERE l.spacing IS NOT NULL AND r.name = l.name AND r.job_group = d.job_group
                                     AND r.next_at - l.spacing * (l.burst - 1) > now()) AS slow
                        FROM (
                            SELECT few.job_group, count(*) AS due
                            FROM (
                                SELECT w.job_group
                                FROM unnest(l.names) AS n (name)
                                CROSS JOIN LATERAL (
                                    -- From group to group: each step reads one entry of the index.
                                    WITH RECURSIVE walk (capability, priority, job_group, visited) AS (
                                        (SELECT coalesce(j.worker_capability, '')::text, j.priority::int, j.job_group::text, 1
                                         FROM ~.forge_jobs j
                                         WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                           AND j.name = n.name
                                         ORDER BY coalesce(j.worker_capability, ''), j.priority, j.job_group LIMIT 1)
                                        UNION ALL
                                        SELECT next.* FROM walk w
                                        CROSS JOIN LATERAL (
                                            SELECT coalesce(j.worker_capability, '')::text, j.priority::int, j.job_group::text,
                                                   w.visited + 1
                                            FROM ~.forge_jobs j
                                            WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                              AND j.name = n.name AND w.visited < %3$d
                                              AND (coalesce(j.worker_capability, ''), j.priority, j.job_group)
                                                  > (w.capability, w.priority, w.job_group)
                                            ORDER BY coalesce(j.worker_capability, ''), j.priority, j.job_group LIMIT 1) AS next)
                                    SELECT * FROM walk) AS w
                                CROSS JOIN LATERAL (
                                    SELECT FROM ~.forge_jobs j
                                    WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                      AND j.name = n.name AND coalesce(j.worker_capability, '') = w.capability
                                      AND j.priority = w.priority AND j.job_group = w.job_group AND j.scheduled_at <= now()
                                    ORDER BY j.scheduled_at LIMIT (SELECT %6$d)) AS due
                                LIMIT %4$d) AS few
                            GROUP BY few.job_group) AS d
                        LEFT JOIN LATERAL (
                            SELECT f.status = 'pending' AND f.scheduled_at <= now() AND f.waits_for IS NULL AS startable
                            FROM unnest(l.names) AS n (name)
                            CROSS JOIN LATERAL (
                                SELECT j.status, j.scheduled_at, j.waits_for, j.created_at, j.id FROM ~.forge_jobs j
                                WHERE l.ordered AND j.job_group = d.job_group AND j.job_group <> '' AND j.name = n.name
                                  AND j.status IN ('pending', 'claimed', 'running') AND j.waits_for IS NULL
                                ORDER BY j.created_at, j.id LIMIT 1) AS f
                            ORDER BY f.created_at, f.id LIMIT 1) AS first ON true) AS c) AS g
                ORDER BY l.name
                """.formatted(
                        JobRows.HELD, MOST_NAMES, MOST_GROUPS, JobReports.MOST_COUNTED, Queue.RANK, MOST_OF_GROUP)))
                .param("aliases", others.toArray(String[]::new))
                .param("handlers", others.stream().map(aliases::get).toArray(String[]::new))
                .query((row, n) -> {
                    var waiting = new TreeMap<Reason, Long>();
                    waiting.put(Reason.WAITING_FOR_ORDER, row.getLong(4));
                    waiting.put(Reason.GROUP_FULL, row.getLong(5));
                    waiting.put(Reason.NAME_FULL, row.getLong(6));
                    waiting.put(Reason.GROUP_RATE, row.getLong(7));
                    return new LimitedName(row.getString(1), row.getObject(2, Integer.class), row.getLong(3), waiting);
                })
                .list();
    }
}

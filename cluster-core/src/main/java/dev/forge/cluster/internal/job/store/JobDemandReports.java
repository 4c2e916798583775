// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.store;

import dev.forge.cluster.internal.database.Schema;
import java.sql.Array;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Reads what the demand for workers is calculated from. Each statement reads a bounded number of rows, however many jobs there
 * are, and none of them reads a row for each job that runs or ends.
 */
public final class JobDemandReports {

    /** Counts of one name and capability stop here. */
    public static final int MOST_COUNTED = JobReports.MOST_COUNTED;

    /** How many names without a handler are counted. */
    private static final int MOST_NAMES = 1_000;

    /** How many queues are gone through. */
    private static final int MOST_QUEUES = 10_000;

    /** How many groups of a name are gone through. */
    private static final int MOST_GROUPS = 1_000;

    /** How many completed jobs the mean duration is calculated from. */
    private static final int MOST_COMPLETED = 2_000;

    private static final int MOST_ROWS = 1_000;

    private final Schema schema;
    private final JdbcClient client;

    public JobDemandReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** A name of jobs and the capability that they require; {@code ""}: none. */
    public record Place(String name, String capability) {}

    /** Workers that publish the same executors and offer the same capabilities. */
    public record Workers(List<String> executors, Set<String> capabilities, int nodes) {}

    /** Returns the active workers. */
    public List<Workers> workers() {
        return client.sql(schema.sql("""
                SELECT executors, worker_capabilities, count(*) FROM ~.forge_nodes
                WHERE status = 'active' AND cardinality(executors) > 0
                GROUP BY executors, worker_capabilities ORDER BY count(*) DESC LIMIT %d
                """.formatted(MOST_ROWS)))
                .query((row, n) ->
                        new Workers(texts(row.getArray(1)), new HashSet<>(texts(row.getArray(2))), row.getInt(3)))
                .list();
    }

    private static List<String> texts(Array array) throws SQLException {
        return Arrays.asList((String[]) array.getArray());
    }

    /**
     * Pending jobs that are due.
     *
     * @param jobs their number; more than {@link #MOST_COUNTED}: at least that many
     * @param ungrouped how many of them have no group
     * @param oldest how long the oldest one has been due
     */
    public record Due(long jobs, long ungrouped, Duration oldest) {}

    /** Returns the pending jobs that are due, of these names and of the first names that pending jobs have. */
    public Map<Place, Due> due(Collection<String> names) {
        var due = new HashMap<Place, Due>();
        // From queue to queue as in JobReports.oldestAge. The limits are in subqueries: otherwise the planner
        // would expect to reach the end of the rows before them.
        client.sql(schema.sql("""
                        WITH %1$s, told (name) AS MATERIALIZED (
                            SELECT unnest(:names::text[])
                            UNION
                            SELECT * FROM (SELECT name::text FROM pending WHERE name IS NOT NULL LIMIT %3$d) AS first),
                        queue (name, capability, rank, head) AS (
                            SELECT n.name, first.* FROM told n
                            CROSS JOIN LATERAL (
                                SELECT coalesce(worker_capability, ''), %2$s, scheduled_at FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = n.name
                                ORDER BY coalesce(worker_capability, ''), %2$s DESC, scheduled_at LIMIT 1) AS first
                            UNION ALL
                            SELECT q.name, next.capability, next.rank, next.head
                            FROM queue q
                            CROSS JOIN LATERAL (
                                SELECT * FROM (
                                    (SELECT 1 AS step, coalesce(worker_capability, '') AS capability, %2$s AS rank,
                                            scheduled_at AS head
                                     FROM ~.forge_jobs
                                     WHERE status = 'pending' AND waits_for IS NULL AND name = q.name
                                       AND coalesce(worker_capability, '') = q.capability AND %2$s < q.rank
                                     ORDER BY %2$s DESC, scheduled_at LIMIT 1)
                                    UNION ALL
                                    (SELECT 2, coalesce(worker_capability, ''), %2$s, scheduled_at
                                     FROM ~.forge_jobs
                                     WHERE status = 'pending' AND waits_for IS NULL AND name = q.name
                                       AND coalesce(worker_capability, '') > q.capability
                                     ORDER BY coalesce(worker_capability, ''), %2$s DESC, scheduled_at LIMIT 1)
                                ) AS candidates ORDER BY step LIMIT 1) AS next),
                        place (name, capability, ranks, oldest) AS MATERIALIZED (
                            SELECT name, capability, array_agg(rank ORDER BY rank DESC), min(head)
                            FROM (SELECT * FROM queue LIMIT %4$d) AS few
                            -- Jobs of the leader: more workers would not help.
                            WHERE head <= now() AND NOT starts_with(capability, '@')
                            GROUP BY name, capability)
                        SELECT p.name, p.capability, counted.jobs, counted.ungrouped,
                               (extract(epoch FROM now() - p.oldest) * 1000)::bigint
                        FROM place p
                        CROSS JOIN LATERAL (
                            SELECT count(*), count(*) FILTER (WHERE few.rank %% 2 = 1)
                            FROM (SELECT r.rank FROM unnest(p.ranks) AS r (rank)
                                  CROSS JOIN LATERAL (
                                      SELECT FROM ~.forge_jobs
                                      WHERE status = 'pending' AND waits_for IS NULL AND name = p.name
                                        AND coalesce(worker_capability, '') = p.capability AND %2$s = r.rank
                                        AND scheduled_at <= now()
                                      ORDER BY scheduled_at LIMIT (SELECT %5$d)) AS jobs
                                  LIMIT (SELECT %5$d)) AS few) AS counted (jobs, ungrouped)
                        """.formatted(
                        JobKeeping.PENDING_NAMES, JobQueueStore.RANK, MOST_NAMES, MOST_QUEUES, MOST_COUNTED + 1)))
                .param("names", names.toArray(String[]::new))
                .query(row -> {
                    due.put(
                            new Place(row.getString(1), row.getString(2)),
                            new Due(row.getLong(3), row.getLong(4), Duration.ofMillis(row.getLong(5))));
                });
        return due;
    }

    /** Returns the pending job of a place that has been due for longest; empty if none is due. */
    public Optional<UUID> oldest(Place place) {
        // From priority to priority: the first row of each is its oldest.
        return client.sql(schema.sql("""
                        WITH RECURSIVE head (rank, scheduled_at, id) AS (
                            (SELECT %1$s, scheduled_at, id FROM ~.forge_jobs
                             WHERE status = 'pending' AND waits_for IS NULL AND name = :name
                               AND coalesce(worker_capability, '') = :capability
                             ORDER BY %1$s DESC, scheduled_at LIMIT 1)
                            UNION ALL
                            SELECT next.* FROM head h
                            CROSS JOIN LATERAL (
                                SELECT %1$s, scheduled_at, id FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = :name
                                  AND coalesce(worker_capability, '') = :capability AND %1$s < h.rank
                                ORDER BY %1$s DESC, scheduled_at LIMIT 1) AS next)
                        SELECT id FROM head WHERE scheduled_at <= now() ORDER BY scheduled_at, id LIMIT 1
                        """.formatted(JobQueueStore.RANK)))
                .param("name", place.name())
                .param("capability", place.capability())
                .query(UUID.class)
                .optional();
    }

    /** Jobs that nodes hold. */
    public record Held(int running, int claimed) {}

    /** Returns the jobs that nodes hold: never many more than the nodes have slots for. */
    public Map<Place, Held> held() {
        var held = new HashMap<Place, Held>();
        client.sql(schema.sql("""
                SELECT name, coalesce(worker_capability, '') AS capability, count(*) FILTER (WHERE status = 'running'),
                       count(*) FILTER (WHERE status = 'claimed')
                FROM ~.forge_jobs WHERE status IN %s AND NOT starts_with(coalesce(worker_capability, ''), '@')
                GROUP BY name, capability ORDER BY name, capability LIMIT %d
                """.formatted(JobRows.HELD, MOST_QUEUES))).query(row -> {
            held.put(new Place(row.getString(1), row.getString(2)), new Held(row.getInt(3), row.getInt(4)));
        });
        return held;
    }

    /**
     * Why jobs of a name may not start.
     *
     * @param registered whether a node has or had a handler
     */
    public record NameState(boolean registered, boolean paused) {}

    /** Returns the states of names. */
    public Map<String, NameState> states(Collection<String> names) {
        var states = new HashMap<String, NameState>();
        client.sql(schema.sql("""
                SELECT n.name, EXISTS (SELECT FROM ~.forge_job_names k WHERE k.name = n.name),
                       EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = n.name)
                FROM unnest(:names::text[]) AS n (name)
                """)).param("names", names.toArray(String[]::new)).query(row -> {
            states.put(row.getString(1), new NameState(row.getBoolean(2), row.getBoolean(3)));
        });
        return states;
    }

    /**
     * The limits of a handler.
     *
     * @param concurrency how many of its jobs may run at once; null: any number
     * @param perGroup whether something limits each group
     */
    public record Limits(@Nullable Integer concurrency, boolean perGroup) {}

    /** Returns the limits of handlers; handlers without limits are absent. */
    public Map<String, Limits> limits(Collection<String> handlers) {
        var limits = new HashMap<String, Limits>();
        client.sql(schema.sql("""
                SELECT name, concurrency, ordered OR group_concurrency IS NOT NULL OR group_rate IS NOT NULL
                FROM ~.forge_job_limits WHERE name = ANY (:handlers::text[])
                """))
                .param("handlers", handlers.toArray(String[]::new))
                .query(row -> {
                    limits.put(row.getString(1), new Limits(row.getObject(2, Integer.class), row.getBoolean(3)));
                });
        return limits;
    }

    /**
     * Returns how many due jobs with a group the limits of their groups allow to start now. Goes through at most 1,000 groups of
     * a name.
     *
     * @param handlers names of jobs, each with the name of its handler
     */
    public Map<Place, Long> startableInGroups(Map<String, String> handlers) {
        var startable = new HashMap<Place, Long>();
        List<Map.Entry<String, String>> entries = List.copyOf(handlers.entrySet());
        // The rules are those of forge_pick_jobs. Nothing is locked here: the result is a guess.
        client.sql(schema.sql("""
                        SELECT d.name, s.capability, s.jobs
                        FROM unnest(:names::text[], :handlers::text[]) AS d (name, handler)
                        JOIN (SELECT name, CASE WHEN ordered THEN 1 ELSE group_concurrency END AS most, ordered,
                                     group_period / group_rate AS spacing, group_burst AS burst
                              FROM ~.forge_job_limits) AS l ON l.name = d.handler
                        CROSS JOIN LATERAL (
                            WITH RECURSIVE walk (capability, priority, job_group, head) AS (
                                (SELECT coalesce(j.worker_capability, ''), j.priority, j.job_group, j.scheduled_at
                                 FROM ~.forge_jobs j
                                 WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                   AND j.name = d.name
                                 ORDER BY coalesce(j.worker_capability, ''), j.priority, j.job_group, j.scheduled_at LIMIT 1)
                                UNION ALL
                                SELECT next.* FROM walk w
                                CROSS JOIN LATERAL (
                                    SELECT coalesce(j.worker_capability, ''), j.priority, j.job_group, j.scheduled_at
                                    FROM ~.forge_jobs j
                                    WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                      AND j.name = d.name
                                      AND (coalesce(j.worker_capability, ''), j.priority, j.job_group)
                                          > (w.capability, w.priority, w.job_group)
                                    ORDER BY coalesce(j.worker_capability, ''), j.priority, j.job_group, j.scheduled_at
                                    LIMIT 1) AS next)
                            SELECT few.capability, count(*) AS jobs
                            FROM (SELECT g.capability
                                  FROM (SELECT * FROM walk LIMIT %1$d) AS g
                                  CROSS JOIN LATERAL (
                                      SELECT least(
                                          l.most - (SELECT count(*) FROM (
                                                        SELECT FROM ~.forge_jobs h
                                                        WHERE h.status IN %2$s AND h.name = d.name AND h.job_group = g.job_group
                                                        LIMIT coalesce(l.most, 0)) AS held),
                                          floor(l.burst - extract(epoch FROM greatest(least(
                                              coalesce((SELECT r.next_at FROM ~.forge_job_rates r
                                                        WHERE r.name = d.handler AND r.job_group = g.job_group), now()),
                                              now() + l.spacing * l.burst), now()) - now()) / extract(epoch FROM l.spacing)))
                                          AS most) AS room
                                  CROSS JOIN LATERAL (
                                      SELECT FROM ~.forge_jobs j
                                      WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                        AND j.name = d.name AND coalesce(j.worker_capability, '') = g.capability
                                        AND j.priority = g.priority AND j.job_group = g.job_group AND j.scheduled_at <= now()
                                      ORDER BY j.scheduled_at LIMIT greatest(room.most, 0)::bigint) AS jobs
                                  WHERE g.head <= now() AND NOT starts_with(g.capability, '@')
                                    AND (NOT l.ordered OR (
                                        SELECT f.status = 'pending' AND f.scheduled_at <= now() AND f.waits_for IS NULL
                                        FROM ~.forge_jobs f
                                        WHERE f.job_group = g.job_group AND f.job_group <> '' AND f.name = d.name AND f.status IN %3$s
                                          AND f.waits_for IS NULL
                                        ORDER BY f.created_at, f.id LIMIT 1))
                                  LIMIT (SELECT %4$d)) AS few
                            GROUP BY few.capability) AS s
                        """.formatted(MOST_GROUPS, JobRows.HELD, JobRows.ACTIVE, MOST_COUNTED)))
                .param("names", entries.stream().map(Map.Entry::getKey).toArray(String[]::new))
                .param("handlers", entries.stream().map(Map.Entry::getValue).toArray(String[]::new))
                .query(row -> {
                    startable.put(new Place(row.getString(1), row.getString(2)), row.getLong(3));
                });
        return startable;
    }

    /**
     * Returns how long jobs of each name ran on average, of those among the last completed ones that ended within ten minutes. Names
     * that are rare among these, and names whose completed jobs are deleted at once, are absent.
     */
    public Map<String, Duration> durations() {
        var durations = new HashMap<String, Duration>();
        client.sql(schema.sql("""
                SELECT name, (avg(extract(epoch FROM finished_at - started_at)) * 1000)::bigint
                FROM (
                    (SELECT name, status, started_at, finished_at FROM ~.forge_jobs
                     WHERE %1$s AND finished_at > now() - interval '10 minutes'
                     ORDER BY %2$s DESC LIMIT (SELECT %5$d))
                    UNION ALL
                    (SELECT name, status, started_at, finished_at FROM ~.forge_jobs
                     WHERE %3$s ORDER BY %4$s DESC LIMIT (SELECT %5$d))) AS recent
                WHERE status = 'completed' AND finished_at BETWEEN now() - interval '10 minutes' AND clock_timestamp()
                  AND started_at BETWEEN '1970-01-01 00:00:00+00' AND finished_at
                GROUP BY name
                """.formatted(
                                JobKeeping.Kind.COMPLETED.condition,
                                JobKeeping.Kind.COMPLETED.age,
                                JobKeeping.Kind.RETAINED.condition,
                                JobKeeping.Kind.RETAINED.age,
                                MOST_COMPLETED)))
                .query(row -> {
                    durations.put(row.getString(1), Duration.ofMillis(row.getLong(2)));
                });
        return durations;
    }
}

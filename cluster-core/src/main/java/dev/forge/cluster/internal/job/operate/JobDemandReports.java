// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.job.operations.JobDemand;
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

    /** How many places that no worker is known for are counted one by one. */
    private static final int MOST_OTHERS = 1_000;

    /** How many of their jobs are counted together. */
    private static final int MOST_OTHER_JOBS = 100_000;

    /** How many names, capabilities and priorities are gone through that anybody may have made up. */
    private static final int MOST_STEPS = 10_000;

    /** How many groups of a place are gone through. */
    public static final int MOST_GROUPS = 1_000;

    /** How many completed jobs the mean duration is calculated from. */
    private static final int MOST_COMPLETED = 2_000;

    private static final int MOST_ROWS = 1_000;

    /** The order of the index of due jobs, for jobs of one name. */
    private static final String ORDER = "coalesce(worker_capability, ''), %s DESC, scheduled_at".formatted(Queue.RANK);

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

    /** Returns the capabilities that active workers offer, and that of jobs that require none. */
    public Set<String> offered() {
        var offered = new HashSet<>(Set.of(""));
        workers().forEach(worker -> offered.addAll(worker.capabilities));
        return offered;
    }

    private static List<String> texts(Array array) throws SQLException {
        return Arrays.asList((String[]) array.getArray());
    }

    /**
     * Names of pending jobs.
     *
     * @param known those that a node has or had a handler for
     * @param others the first of the other ones
     */
    record Names(Set<String> known, Set<String> others) {}

    /** Returns the names of pending jobs. No number of other names keeps a known one from being found. */
    Names names(Collection<String> handled) {
        var names = new Names(new HashSet<>(), new HashSet<>());
        client.sql(schema.sql("""
                        WITH %1$s, known (name) AS MATERIALIZED (
                            SELECT unnest(:handled::text[]) UNION SELECT name FROM ~.forge_job_names)
                        SELECT k.name, true FROM known k
                        CROSS JOIN LATERAL (
                            SELECT FROM ~.forge_jobs WHERE status = 'pending' AND waits_for IS NULL AND name = k.name
                            ORDER BY %2$s LIMIT 1) AS first
                        UNION ALL
                        (SELECT p.name::text, false FROM pending p
                         WHERE p.name IS NOT NULL AND p.name::text NOT IN (SELECT k.name FROM known k) LIMIT %3$d)
                        """.formatted(JobNameStore.PENDING_NAMES, ORDER, MOST_STEPS)))
                .param("handled", handled.toArray(String[]::new))
                .query(row -> {
                    (row.getBoolean(2) ? names.known : names.others).add(row.getString(1));
                });
        return names;
    }

    /**
     * Pending jobs that are due.
     *
     * @param jobs their number; at least that many unless exact
     * @param ungrouped how many of them have no group
     * @param oldest how long the oldest one has been due
     */
    public record Due(long jobs, boolean exact, long ungrouped, Duration oldest) {

        private Due plus(Due more) {
            return new Due(
                    jobs + more.jobs,
                    exact && more.exact,
                    ungrouped + more.ungrouped,
                    oldest.compareTo(more.oldest) > 0 ? oldest : more.oldest);
        }
    }

    /**
     * Pending jobs that are due.
     *
     * @param places by name and capability: all places with one of the given capabilities, and the first other ones
     * @param rest the remaining ones by name, at least one for each capability; of names that no node knows, as
     *     {@link JobDemand#OTHER}
     */
    public record Waiting(Map<Place, Due> places, Map<String, Due> rest) {}

    /**
     * Returns the pending jobs that are due. Names that a node has or had a handler for come first, and for these the given
     * capabilities, so that no number of other ones hides them.
     *
     * @param handled names that nodes have handlers for
     */
    public Waiting due(Collection<String> handled, Collection<String> capabilities) {
        Names names = names(handled);
        Waiting all = dueOf(names.known, capabilities);
        Waiting others = dueOf(names.others, Set.of());
        all.places.putAll(others.places);
        others.rest.values().forEach(due -> all.rest.merge(JobDemand.OTHER, due, Due::plus));
        return all;
    }

    Waiting dueOf(Collection<String> names, Collection<String> capabilities) {
        var waiting = new Waiting(new HashMap<>(), new HashMap<>());
        // From queue to queue as in JobReports.oldestAge, in turns for each name. The limits are in subqueries:
        // otherwise the planner would expect to reach the end of the rows before them.
        client.sql(schema.sql("""
                        WITH RECURSIVE walk (name, capability, head) AS (
                            SELECT n.name, first.* FROM unnest(:names::text[]) AS n (name)
                            CROSS JOIN LATERAL (
                                SELECT coalesce(worker_capability, ''), scheduled_at FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = n.name
                                ORDER BY %2$s LIMIT 1) AS first
                            UNION ALL
                            SELECT w.name, next.* FROM walk w
                            CROSS JOIN LATERAL (
                                SELECT coalesce(worker_capability, ''), scheduled_at FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = w.name
                                  AND coalesce(worker_capability, '') > w.capability
                                ORDER BY %2$s LIMIT 1) AS next),
                        other (name, capability, head, position) AS MATERIALIZED (
                            SELECT few.*, row_number() OVER ()
                            FROM (SELECT * FROM walk
                                  LIMIT %5$d + cardinality(:names::text[]) * cardinality(:capabilities::text[])) AS few
                            -- Jobs of the leader: more workers would not help.
                            WHERE capability <> ALL (:capabilities::text[]) AND NOT starts_with(capability, '@')),
                        place (name, capability, most) AS MATERIALIZED (
                            SELECT n.name, c.capability, %6$d
                            FROM unnest(:names::text[]) AS n (name), unnest(:capabilities::text[]) AS c (capability)
                            UNION ALL
                            SELECT name, capability, least(%6$d, %4$d / count(*) OVER ())
                            FROM other WHERE position <= %3$d),
                        queue (name, capability, most, rank, head) AS (
                            SELECT p.*, first.* FROM place p
                            CROSS JOIN LATERAL (
                                SELECT %1$s, scheduled_at FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = p.name
                                  AND coalesce(worker_capability, '') = p.capability
                                ORDER BY %1$s DESC, scheduled_at LIMIT 1) AS first
                            UNION ALL
                            SELECT q.name, q.capability, q.most, next.* FROM queue q
                            CROSS JOIN LATERAL (
                                SELECT %1$s, scheduled_at FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = q.name
                                  AND coalesce(worker_capability, '') = q.capability AND %1$s < q.rank
                                ORDER BY %1$s DESC, scheduled_at LIMIT 1) AS next),
                        found AS MATERIALIZED (
                            SELECT * FROM queue LIMIT %5$d + (SELECT count(*) FROM place)),
                        filled (name, capability, most, ranks, oldest) AS MATERIALIZED (
                            SELECT name, capability, most, array_agg(rank ORDER BY rank DESC), min(head)
                            FROM found WHERE head <= now() GROUP BY name, capability, most)
                        SELECT f.name, f.capability, least(counted.jobs, f.most),
                               counted.jobs <= f.most
                               AND (SELECT count(*) FROM found) < %5$d + (SELECT count(*) FROM place),
                               least(counted.ungrouped, f.most), (extract(epoch FROM now() - f.oldest) * 1000)::bigint
                        FROM filled f
                        CROSS JOIN LATERAL (
                            SELECT count(*), count(*) FILTER (WHERE few.rank %% 2 = 1)
                            FROM (SELECT r.rank FROM unnest(f.ranks) AS r (rank)
                                  CROSS JOIN LATERAL (
                                      SELECT FROM ~.forge_jobs
                                      WHERE status = 'pending' AND waits_for IS NULL AND name = f.name
                                        AND coalesce(worker_capability, '') = f.capability AND %1$s = r.rank
                                        AND scheduled_at <= now()
                                      ORDER BY scheduled_at LIMIT f.most + 1) AS jobs
                                  LIMIT f.most + 1) AS few) AS counted (jobs, ungrouped)
                        UNION ALL
                        SELECT name, NULL, count(*), false, 0, (extract(epoch FROM now() - min(head)) * 1000)::bigint
                        FROM other WHERE position > %3$d AND head <= now() GROUP BY name
                        """.formatted(Queue.RANK, ORDER, MOST_OTHERS, MOST_OTHER_JOBS, MOST_STEPS, MOST_COUNTED)))
                .param("names", names.toArray(String[]::new))
                .param("capabilities", capabilities.toArray(String[]::new))
                .query(row -> {
                    String capability = row.getString(2);
                    var due = new Due(
                            row.getLong(3), row.getBoolean(4), row.getLong(5), Duration.ofMillis(row.getLong(6)));
                    if (capability == null) {
                        waiting.rest.put(row.getString(1), due);
                    } else {
                        waiting.places.put(new Place(row.getString(1), capability), due);
                    }
                });
        return waiting;
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
                        """.formatted(Queue.RANK)))
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
                """.formatted(JobRows.HELD, MOST_STEPS))).query(row -> {
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
     * A place whose jobs have groups with limits.
     *
     * @param handler the name of the handler of its jobs
     * @param groups how many groups are gone through
     */
    public record GroupedPlace(Place place, String handler, int groups) {}

    /** Returns how many due jobs with a group the limits of their groups allow to start now. */
    public Map<Place, Long> startableInGroups(Collection<GroupedPlace> places) {
        var startable = new HashMap<Place, Long>();
        // The rules are those of forge_pick_jobs. Nothing is locked here: the result is a guess.
        client.sql(schema.sql("""
                        SELECT d.name, d.capability, s.jobs
                        FROM unnest(:names::text[], :capabilities::text[], :handlers::text[], :groups::int[])
                             AS d (name, capability, handler, groups)
                        JOIN (SELECT name, CASE WHEN ordered THEN 1 ELSE group_concurrency END AS most, ordered,
                                     group_period / group_rate AS spacing, group_burst AS burst
                              FROM ~.forge_job_limits) AS l ON l.name = d.handler
                        CROSS JOIN LATERAL (
                            WITH RECURSIVE walk (priority, job_group, head) AS (
                                (SELECT j.priority, j.job_group, j.scheduled_at
                                 FROM ~.forge_jobs j
                                 WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                   AND j.name = d.name AND coalesce(j.worker_capability, '') = d.capability
                                 ORDER BY j.priority, j.job_group, j.scheduled_at LIMIT 1)
                                UNION ALL
                                SELECT next.* FROM walk w
                                CROSS JOIN LATERAL (
                                    SELECT j.priority, j.job_group, j.scheduled_at
                                    FROM ~.forge_jobs j
                                    WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                      AND j.name = d.name AND coalesce(j.worker_capability, '') = d.capability
                                      AND (j.priority, j.job_group) > (w.priority, w.job_group)
                                    ORDER BY j.priority, j.job_group, j.scheduled_at
                                    LIMIT 1) AS next)
                            SELECT count(*) AS jobs
                            FROM (SELECT
                                  FROM (SELECT * FROM walk LIMIT d.groups) AS g
                                  CROSS JOIN LATERAL (
                                      SELECT least(
                                          l.most - (SELECT count(*) FROM (
                                                        SELECT FROM ~.forge_jobs h
                                                        WHERE h.status IN %1$s AND h.name = d.name AND h.job_group = g.job_group
                                                        LIMIT coalesce(l.most, 0)) AS held),
                                          floor(l.burst - extract(epoch FROM greatest(least(
                                              coalesce((SELECT r.next_at FROM ~.forge_job_rates r
                                                        WHERE r.name = d.handler AND r.job_group = g.job_group), now()),
                                              now() + l.spacing * l.burst), now()) - now()) / extract(epoch FROM l.spacing)))
                                          AS most) AS room
                                  CROSS JOIN LATERAL (
                                      SELECT FROM ~.forge_jobs j
                                      WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL
                                        AND j.name = d.name AND coalesce(j.worker_capability, '') = d.capability
                                        AND j.priority = g.priority AND j.job_group = g.job_group AND j.scheduled_at <= now()
                                      ORDER BY j.scheduled_at LIMIT greatest(room.most, 0)::bigint) AS jobs
                                  WHERE g.head <= now()
                                    AND (NOT l.ordered OR (
                                        SELECT f.status = 'pending' AND f.scheduled_at <= now() AND f.waits_for IS NULL
                                        FROM ~.forge_jobs f
                                        WHERE f.job_group = g.job_group AND f.job_group <> '' AND f.name = d.name AND f.status IN %2$s
                                          AND f.waits_for IS NULL
                                        ORDER BY f.created_at, f.id LIMIT 1))
                                  LIMIT (SELECT %3$d)) AS few) AS s
                        WHERE s.jobs > 0
                        """.formatted(JobRows.HELD, JobRows.ACTIVE, MOST_COUNTED)))
                .param("names", places.stream().map(at -> at.place.name).toArray(String[]::new))
                .param(
                        "capabilities",
                        places.stream().map(at -> at.place.capability).toArray(String[]::new))
                .param("handlers", places.stream().map(GroupedPlace::handler).toArray(String[]::new))
                .param("groups", places.stream().map(GroupedPlace::groups).toArray(Integer[]::new))
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
                                JobPurgeStore.Kind.COMPLETED.condition,
                                JobPurgeStore.Kind.COMPLETED.age,
                                JobPurgeStore.Kind.RETAINED.condition,
                                JobPurgeStore.Kind.RETAINED.age,
                                MOST_COMPLETED)))
                .query(row -> {
                    durations.put(row.getString(1), Duration.ofMillis(row.getLong(2)));
                });
        return durations;
    }
}

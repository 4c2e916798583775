// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import javax.sql.DataSource;

/** The names of jobs: those that nodes know, those that are paused, and those of pending jobs. */
public final class JobNameStore {

    /** How many names a query for names reads. */
    private static final int MOST_NAMES = 10_000;

    /** How many paused names without a handler are listed: operators may add any by SQL. */
    private static final int MOST_PAUSED = 1_000;

    /** The names of pending jobs. Each is one step in the index, however many jobs have it. */
    public static final String PENDING_NAMES = """
            RECURSIVE pending (name) AS (
                (SELECT name FROM ~.forge_jobs WHERE status = 'pending' AND waits_for IS NULL ORDER BY name LIMIT 1)
                UNION ALL
                SELECT (SELECT j.name FROM ~.forge_jobs j
                        WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name > p.name
                        ORDER BY j.name LIMIT 1)
                FROM pending p WHERE p.name IS NOT NULL)""";

    /**
     * The number of pending jobs of {@code p.name}, up to a limit. In the order of the index, and with a limit that the planner does
     * not know: otherwise it would read all rows where it expects no more than the limit.
     */
    public static final String PENDING_COUNT = """
            (SELECT count(*) FROM (
                 SELECT FROM ~.forge_jobs j
                 WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = p.name
                 ORDER BY coalesce(j.worker_capability, ''), %s DESC, j.scheduled_at LIMIT (SELECT %%d)) AS few)
            """.formatted(Queue.RANK);

    private final Tables tables;

    public JobNameStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** Pauses a name: its jobs are not claimed. Returns false if it was paused before. */
    public boolean pause(String name) {
        return tables.sql(Schema.BY_NODE + "INSERT INTO ~.forge_job_pauses (name) VALUES (?) ON CONFLICT DO NOTHING")
                        .param(name)
                        .update()
                == 1;
    }

    /** Resumes a name; false if it was not paused. */
    public boolean resume(String name) {
        return tables.sql(Schema.BY_NODE + "DELETE FROM ~.forge_job_pauses WHERE name = ?")
                        .param(name)
                        .update()
                == 1;
    }

    /** Returns the names that are paused: all that a node has or had a handler for, and the first 1,000 other ones. */
    public Set<String> paused() {
        return new TreeSet<>(tables.sql("""
                        SELECT p.name FROM ~.forge_job_names k JOIN ~.forge_job_pauses p ON p.name = k.name
                        UNION (SELECT name FROM ~.forge_job_pauses ORDER BY name LIMIT %d)
                        """.formatted(MOST_PAUSED))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /**
     * A few names for a message.
     *
     * @param first the first names, each with its number of jobs, at most a thousand; 0 if jobs were not counted. In their order, but
     *     those that a node has or had a handler for come first: anybody who may enqueue can make up others
     * @param more how many further names were found
     */
    public record FewNames(Map<String, Long> first, int more) {}

    /** Returns the names for which a node of this cluster has or had a handler, except for reserved ones. */
    public FewNames handledNames(int limit, List<String> withoutPrefixes) {
        return few("""
                SELECT name, true FROM (
                    SELECT name FROM ~.forge_job_names
                    -- Nodes of a release that did not write forge_job_names.
                    UNION SELECT unnest(handlers) FROM ~.forge_nodes) AS known
                WHERE %s LIMIT %d
                """.formatted(notReserved("known.name"), MOST_NAMES), "0::bigint", limit, withoutPrefixes);
    }

    /** Returns the names of pending jobs that no live node has a handler for, except for reserved ones. Cheap for any number of jobs. */
    public FewNames orphanedNames(int limit, List<String> withoutPrefixes) {
        return few(
                """
                SELECT n.name, n.known FROM (
                    SELECT k.name::text, true FROM ~.forge_job_names k
                    CROSS JOIN LATERAL (
                        SELECT FROM ~.forge_jobs j
                        WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = k.name
                        ORDER BY coalesce(j.worker_capability, ''), %s DESC, j.scheduled_at LIMIT 1) AS first
                    UNION ALL
                    (SELECT p.name::text, false FROM pending p
                     WHERE p.name IS NOT NULL AND p.name::text NOT IN (SELECT name FROM ~.forge_job_names) LIMIT %d)
                    ) AS n (name, known)
                WHERE n.name <> ALL (ARRAY(SELECT unnest(handlers) FROM ~.forge_nodes WHERE status <> 'dead'))
                  AND %s
                """.formatted(Queue.RANK, MOST_NAMES, notReserved("n.name")),
                PENDING_COUNT.formatted(1_000),
                limit,
                withoutPrefixes);
    }

    /** Returns the names that a live node has a handler for. */
    public Set<String> liveNames() {
        return new HashSet<>(tables.sql("SELECT DISTINCT unnest(handlers) FROM ~.forge_nodes WHERE status <> 'dead'")
                .query((row, n) -> row.getString(1))
                .list());
    }

    private static String notReserved(String name) {
        return "NOT EXISTS (SELECT FROM unnest(:prefixes::text[]) AS r (prefix) WHERE starts_with(%s, r.prefix))"
                .formatted(name);
    }

    private FewNames few(String names, String count, int limit, List<String> withoutPrefixes) {
        var first = new LinkedHashMap<String, Long>();
        long[] all = {0};
        tables.sql("""
                        WITH %s, found (name, known) AS MATERIALIZED (%s)
                        SELECT p.name, %s, (SELECT count(*) FROM found)
                        FROM (SELECT name, known FROM found ORDER BY known DESC, name LIMIT :limit) AS p
                        ORDER BY p.known DESC, p.name
                        """.formatted(PENDING_NAMES, names, count))
                .param("limit", limit)
                .param("prefixes", withoutPrefixes.toArray(String[]::new))
                .query(row -> {
                    first.put(row.getString(1), row.getLong(2));
                    all[0] = row.getLong(3);
                });
        return new FewNames(first, (int) all[0] - first.size());
    }

    /** Returns whether a node has or had a handler for jobs of that name. */
    public boolean hasHandler(String name) {
        return tables.sql("""
                        SELECT EXISTS (SELECT FROM ~.forge_job_names WHERE name = :name)
                            OR EXISTS (SELECT FROM ~.forge_nodes WHERE :name = ANY (handlers))
                        """).param("name", name).query(Boolean.class).single();
    }

    /** Returns whether a node has or had a handler for jobs of that name, or such a job has not ended. */
    public boolean knows(String name) {
        return hasHandler(name)
                || tables.sql("""
                                SELECT EXISTS (SELECT FROM ~.forge_jobs WHERE name = :name AND status = 'pending')
                                    OR EXISTS (SELECT FROM ~.forge_jobs WHERE name = :name AND status IN %s)
                                """.formatted(JobRows.HELD))
                        .param("name", name)
                        .query(Boolean.class)
                        .single();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.store;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Maintains {@code forge_jobs}: pauses names, lists names, purges finished jobs and vacuums the table. */
public final class JobKeeping {

    private static final Duration LONGEST_VACUUM = Duration.ofMinutes(30);

    /** How many names a query for names reads. */
    private static final int MOST_NAMES = 10_000;

    /** How many paused names without a handler are listed: operators may add any by SQL. */
    private static final int MOST_PAUSED = 1_000;

    /** The names of pending jobs. Each is one step in the index, however many jobs have it. */
    static final String PENDING_NAMES = """
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
    static final String PENDING_COUNT = """
            (SELECT count(*) FROM (
                 SELECT FROM ~.forge_jobs j
                 WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = p.name
                 ORDER BY coalesce(j.worker_capability, ''), %s DESC, j.scheduled_at LIMIT (SELECT %%d)) AS few)
            """.formatted(JobQueueStore.RANK);

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;

    public JobKeeping(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
    }

    // Names -------------------------------------------------------------------------------------------------

    /** Pauses a name: its jobs are not claimed. Returns false if it was paused before. */
    public boolean pause(String name) {
        return jdbc.update(
                        schema.sql(Schema.BY_NODE
                                + "INSERT INTO ~.forge_job_pauses (name) VALUES (?) ON CONFLICT DO NOTHING"),
                        name)
                == 1;
    }

    /** Resumes a name; false if it was not paused. */
    public boolean resume(String name) {
        return jdbc.update(schema.sql(Schema.BY_NODE + "DELETE FROM ~.forge_job_pauses WHERE name = ?"), name) == 1;
    }

    /** Returns the names that are paused: all that a node has or had a handler for, and the first 1,000 other ones. */
    public Set<String> paused() {
        return new TreeSet<>(client.sql(schema.sql("""
                        SELECT p.name FROM ~.forge_job_names k JOIN ~.forge_job_pauses p ON p.name = k.name
                        UNION (SELECT name FROM ~.forge_job_pauses ORDER BY name LIMIT %d)
                        """.formatted(MOST_PAUSED)))
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
                """.formatted(JobQueueStore.RANK, MOST_NAMES, notReserved("n.name")),
                PENDING_COUNT.formatted(1_000),
                limit,
                withoutPrefixes);
    }

    /** Returns the names that a live node has a handler for. */
    public Set<String> liveNames() {
        return new HashSet<>(
                client.sql(schema.sql("SELECT DISTINCT unnest(handlers) FROM ~.forge_nodes WHERE status <> 'dead'"))
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
        client.sql(schema.sql("""
                        WITH %s, found (name, known) AS MATERIALIZED (%s)
                        SELECT p.name, %s, (SELECT count(*) FROM found)
                        FROM (SELECT name, known FROM found ORDER BY known DESC, name LIMIT :limit) AS p
                        ORDER BY p.known DESC, p.name
                        """.formatted(PENDING_NAMES, names, count)))
                .param("limit", limit)
                .param("prefixes", withoutPrefixes.toArray(String[]::new))
                .query(row -> {
                    first.put(row.getString(1), row.getLong(2));
                    all[0] = row.getLong(3);
                });
        return new FewNames(first, (int) all[0] - first.size());
    }

    // Deleting ----------------------------------------------------------------------------------------------

    /** The finished jobs that an index has in the order of their age. */
    enum Kind {
        COMPLETED(JobStatus.COMPLETED),
        CANCELLED(JobStatus.CANCELLED),
        FAILED(JobStatus.FAILED),
        ABANDONED(JobStatus.ABANDONED),
        /** Jobs with their own retention. */
        RETAINED(
                // A job that was made pending by hand keeps both values.
                "retention IS NOT NULL AND finished_at IS NOT NULL"
                        + " AND status IN ('completed', 'failed', 'cancelled', 'abandoned')",
                "(finished_at AT TIME ZONE 'UTC') + retention",
                null);

        /** Includes the condition of the index: otherwise the index would not be used. */
        final String condition;
        /** The expression of the index. */
        final String age;

        private final @Nullable JobStatus status;

        Kind(JobStatus status) {
            this("status = '%s' AND retention IS NULL".formatted(EnumText.underscored(status)), "finished_at", status);
        }

        Kind(String condition, String age, @Nullable JobStatus status) {
            this.condition = condition;
            this.age = age;
            this.status = status;
        }

        boolean mayInclude(JobStatus wanted) {
            return status == null ? wanted.isFinal() : status == wanted;
        }
    }

    /** Finds the job {@code u.row_id} if it has finished. */
    public static final String FINISHED_JOB =
            "SELECT FROM ~.forge_jobs j WHERE j.id = u.row_id AND j.status NOT IN " + JobRows.ACTIVE;

    /**
     * Which finished jobs are deleted.
     *
     * @param completed how long completed and cancelled jobs are kept that have no retention of their own
     * @param failed the same for failed and abandoned ones
     * @param awaited an SQL condition on jobs {@code j} that must stay; empty: none
     */
    public record Expiry(Duration completed, Duration failed, String awaited) {

        private Duration age(Kind kind) {
            return switch (kind) {
                case COMPLETED, CANCELLED -> completed;
                case FAILED, ABANDONED -> failed;
                case RETAINED -> Duration.ZERO;
            };
        }

        /** Returns the SQL condition that a job {@code j} of a kind may be deleted, with the parameter {@code :<kind>}. */
        private String condition(Kind kind) {
            // Not clock_timestamp(): an index cannot be searched for a value that changes during the search.
            return "%1$s AND %2$s < %3$s - :%4$s * interval '1 millisecond' AND NOT (%5$s)"
                    .formatted(
                            kind.condition,
                            kind.age,
                            kind == Kind.RETAINED ? "now() AT TIME ZONE 'UTC'" : "now()",
                            EnumText.underscored(kind),
                            (awaited.isEmpty() ? "false" : awaited)
                                    + (kind == Kind.COMPLETED ? "" : " OR " + JobDependencyStore.FAILED_FOR_OTHERS));
        }
    }

    /** Deletes finished jobs whose retention has passed, up to the limit, and reads no others. */
    public int purge(Expiry expiry, int limit) {
        int deleted = 0;
        for (Kind kind : Kind.values()) {
            if (deleted < limit) {
                if (kind != Kind.RETAINED) {
                    date(kind, limit - deleted);
                }
                deleted += delete(kind, expiry, limit - deleted);
            }
        }
        return deleted;
    }

    /** Sets the time of jobs that were ended by hand without a time: their retention begins now. */
    private void date(Kind kind, int limit) {
        // In the order of the index: the planner knows the share of completed jobs and the share of jobs without a
        // time. It
        // expects many that are both, and would read the whole table to find the first of them.
        client.sql(schema.sql("""
                UPDATE ~.forge_jobs SET finished_at = now() WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs WHERE %s AND finished_at IS NULL
                    ORDER BY finished_at LIMIT (SELECT ?) FOR UPDATE SKIP LOCKED))
                """.formatted(kind.condition))).param(limit).update();
    }

    private int delete(Kind kind, Expiry expiry, int limit) {
        String delete = "DELETE FROM ~.forge_jobs WHERE id = ANY (ARRAY(%s FOR UPDATE SKIP LOCKED))"
                .formatted(expired(kind, expiry));
        // The window of a job that failed has ended, but without the row of the job nobody could see that. And a batch
        // does not
        // succeed because its failed jobs are forgotten.
        JdbcClient.StatementSpec statement = client.sql(schema.sql(kind == Kind.COMPLETED ? delete : deleting(delete)))
                .param(EnumText.underscored(kind), expiry.age(kind).toMillis())
                .param("limit", limit);
        return kind == Kind.COMPLETED
                ? statement.update()
                : statement.query(Integer.class).single();
    }

    private static String expired(Kind kind, Expiry expiry) {
        return "SELECT id FROM ~.forge_jobs j WHERE %s AND %s ORDER BY %s LIMIT (SELECT :limit)"
                .formatted(expiry.condition(kind), UndeletableStore.notSetAside("forge_jobs", "j.id"), kind.age);
    }

    private static String deleting(String delete) {
        return """
                WITH deleted AS (%s RETURNING id, name, unique_key, status, batch_id), %s, %s
                SELECT count(*) FROM deleted
                """.formatted(delete, UniqueJobStore.ENDING_WINDOWS, JobBatchStore.REMEMBERING);
    }

    /** Returns the jobs that {@link #purge(Expiry, int)} would delete. */
    public List<UUID> expired(Expiry expiry, int limit) {
        var ids = new ArrayList<UUID>();
        for (Kind kind : Kind.values()) {
            if (ids.size() < limit) {
                ids.addAll(client.sql(schema.sql(expired(kind, expiry)))
                        .param(EnumText.underscored(kind), expiry.age(kind).toMillis())
                        .param("limit", limit - ids.size())
                        .query((row, n) -> row.getObject(1, UUID.class))
                        .list());
            }
        }
        return ids;
    }

    /** Deletes those of these finished jobs whose retention has passed. */
    public int purge(Expiry expiry, Collection<UUID> among) {
        String expired = Stream.of(Kind.values())
                .map(kind -> "(" + expiry.condition(kind) + ")")
                .collect(Collectors.joining(" OR "));
        JdbcClient.StatementSpec statement =
                client.sql(schema.sql(deleting("""
                        DELETE FROM ~.forge_jobs WHERE id = ANY (ARRAY(
                            SELECT id FROM ~.forge_jobs j WHERE id = ANY (:among::uuid[]) AND (%s)
                            ORDER BY id FOR UPDATE SKIP LOCKED))
                        """.formatted(expired)))).param("among", among.toArray(UUID[]::new));
        for (Kind kind : Kind.values()) {
            statement.param(EnumText.underscored(kind), expiry.age(kind).toMillis());
        }
        return statement.query(Integer.class).single();
    }

    /** Returns the number of dead rows of the table according to the statistics of the server. */
    public long deadRows() {
        return client.sql("SELECT coalesce(pg_stat_get_dead_tuples(to_regclass(?)), 0)")
                .param(schema.sql("~.forge_jobs"))
                .query(Long.class)
                .single();
    }

    /** Vacuums the table. Best effort: only its owner may do so, and not while another vacuum runs. */
    public void vacuum() {
        jdbc.execute((ConnectionCallback<Boolean>) connection -> {
            connection.setNetworkTimeout(Runnable::run, (int) LONGEST_VACUUM.toMillis());
            try (Statement statement = connection.createStatement()) {
                return statement.execute(
                        schema.sql("VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) ~.forge_jobs"));
            }
        });
    }
}

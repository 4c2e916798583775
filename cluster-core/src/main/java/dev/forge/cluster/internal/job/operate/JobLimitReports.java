// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.job.operations.JobLimits;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Queries about the limits of jobs: what they are, what they allow at present, and which jobs occupy their places. */
public final class JobLimitReports {

    /** How many holders are named. */
    private static final int MOST_HOLDERS = 3;

    private final Schema schema;
    private final JdbcClient client;

    public JobLimitReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * The limits of the jobs of a name, and those that its handler declares.
     *
     * @param overridden whether the limits were set at run time
     * @param problem why this node cannot read the limits, which are none then; null: it can
     */
    public record NameLimits(
            String name,
            JobLimits limits,
            boolean ordered,
            boolean overridden,
            JobLimits declared,
            @Nullable String problem) {

        /** Returns that a name has no limits. */
        public static NameLimits none(String name) {
            return new NameLimits(name, JobLimits.none(), false, false, JobLimits.none(), null);
        }
    }

    private static final String NAME_LIMITS = """
            SELECT name, ordered, overridden, concurrency, group_concurrency, group_rate, extract(epoch FROM group_period) * 1000,
                   group_burst, declared_concurrency, declared_group_concurrency, declared_group_rate,
                   extract(epoch FROM declared_group_period) * 1000, declared_group_burst
            FROM ~.forge_job_limits
            """;

    /** Returns the limits of a name of a handler; empty if nobody has declared or set any. */
    public Optional<NameLimits> find(String handler) {
        return client.sql(schema.sql(NAME_LIMITS + "WHERE name = ?"))
                .param(handler)
                .query((row, n) -> nameLimits(row))
                .optional();
    }

    /**
     * Returns up to {@code limit} names that have limits, after a name, ordered by name, but those that a node has or had a handler for
     * come first: operators may add any by SQL.
     */
    public List<NameLimits> page(@Nullable String after, int limit) {
        return client.sql(schema.sql(NAME_LIMITS + """
                AS l
                CROSS JOIN LATERAL (
                    SELECT NOT EXISTS (SELECT FROM ~.forge_job_names k WHERE k.name = l.name)) AS n (unknown)
                WHERE (:after::text IS NULL
                       OR (unknown, name)
                          > (NOT EXISTS (SELECT FROM ~.forge_job_names k WHERE k.name = :after), :after::text))
                  AND (overridden OR ordered OR num_nonnulls(concurrency, group_concurrency, group_rate) > 0)
                ORDER BY unknown, name LIMIT :limit
                """))
                .param("after", after, Types.VARCHAR)
                .param("limit", limit)
                .query((row, n) -> nameLimits(row))
                .list();
    }

    private static NameLimits nameLimits(ResultSet row) throws SQLException {
        JobLimits limits = JobLimits.none();
        JobLimits declared = JobLimits.none();
        String problem = null;
        try {
            limits = JobLimitStore.limits(row, 4);
            declared = JobLimitStore.limits(row, 9);
        } catch (IllegalArgumentException e) {
            // The schema of a newer release may allow what this release does not know.
            problem = e.getMessage();
        }
        return new NameLimits(row.getString(1), limits, row.getBoolean(2), row.getBoolean(3), declared, problem);
    }

    /** Returns how many jobs of these names the nodes hold, by name; names without such jobs are absent. */
    public Map<String, Long> held(Collection<String> names) {
        return client
                .sql(schema.sql("""
                SELECT name, count(*) FROM ~.forge_jobs WHERE status IN %s AND name = ANY (?::text[]) GROUP BY name
                """.formatted(JobRows.HELD)))
                .param(names.toArray(String[]::new))
                .query((row, n) -> Map.entry(row.getString(1), row.getLong(2)))
                .list()
                .stream()
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    /** A group with the number of its jobs that nodes hold. */
    public record GroupState(String group, long held, int weight) {}

    /** Returns groups that have jobs on nodes, the fullest first, then groups with a weight. */
    public List<GroupState> groups(String handler, Collection<String> names, int limit) {
        return client.sql(schema.sql("""
                WITH held AS MATERIALIZED (
                    SELECT job_group, count(*) AS jobs FROM ~.forge_jobs
                    WHERE status IN %s AND name = ANY (:names::text[]) AND job_group IS NOT NULL GROUP BY job_group)
                SELECT h.job_group::text AS job_group, h.jobs, coalesce(w.weight, 1)
                FROM held h LEFT JOIN ~.forge_job_weights w ON w.name = :handler AND w.job_group = h.job_group
                UNION ALL
                SELECT * FROM (
                    SELECT w.job_group::text, 0, w.weight FROM ~.forge_job_weights w
                    WHERE w.name = :handler AND NOT EXISTS (SELECT FROM held h WHERE h.job_group = w.job_group)
                    ORDER BY w.job_group LIMIT :limit) AS weighted
                ORDER BY 2 DESC, 1 LIMIT :limit
                """.formatted(JobRows.HELD)))
                .param("handler", handler)
                .param("names", names.toArray(String[]::new))
                .param("limit", limit)
                .query((row, n) -> new GroupState(row.getString(1), row.getLong(2), row.getInt(3)))
                .list();
    }

    /** Returns whether a group of this name has a weight. */
    public boolean hasWeights(String handler) {
        return client.sql(schema.sql("SELECT EXISTS (SELECT FROM ~.forge_job_weights WHERE name = ?)"))
                .param(handler)
                .query(Boolean.class)
                .single();
    }

    /** A job that occupies a place of a limit, and since when. */
    public record Holder(UUID job, @Nullable UUID node, Instant since) {}

    /**
     * The limits of a job and what they allow at present. Jobs that nodes hold are counted up to their limit.
     *
     * @param concurrency the number of jobs of its name that may run at the same time; null: any number
     * @param groupConcurrency the number of jobs of its group that may run at the same time; null: any number
     * @param startableAt when the rate allows the next start; null: there is no rate, or now
     */
    public record LimitState(
            @Nullable Integer concurrency,
            int held,
            @Nullable Integer groupConcurrency,
            int heldOfGroup,
            @Nullable Instant startableAt,
            boolean ordered) {

        public boolean isFull() {
            return concurrency != null && held >= concurrency;
        }

        public boolean isGroupFull() {
            return groupConcurrency != null && heldOfGroup >= groupConcurrency;
        }
    }

    /** Returns the state of the limits of a name and a group; empty if there are none. */
    public Optional<LimitState> state(String handler, Collection<String> names, @Nullable String group) {
        return client.sql(schema.sql("""
                SELECT l.concurrency,
                       (SELECT count(*) FROM (
                            SELECT FROM ~.forge_jobs j WHERE j.status IN %1$s AND j.name = ANY (:names::text[])
                            LIMIT coalesce(l.concurrency, 0)) AS few),
                       l.group_concurrency,
                       (SELECT count(*) FROM (
                            SELECT FROM ~.forge_jobs j
                            WHERE j.status IN %1$s AND j.name = ANY (:names::text[]) AND j.job_group = :group
                            LIMIT coalesce(l.group_concurrency, 0)) AS few),
                       (SELECT least(r.next_at, now() + l.spacing * l.burst) - l.spacing * (l.burst - 1)
                        FROM ~.forge_job_rates r
                        WHERE l.spacing IS NOT NULL AND r.name = :handler AND r.job_group = :group
                          AND r.next_at - l.spacing * (l.burst - 1) > now()),
                       l.ordered
                FROM (SELECT concurrency, CASE WHEN ordered THEN 1 ELSE group_concurrency END AS group_concurrency, ordered,
                             group_period / group_rate AS spacing, group_burst AS burst
                      FROM ~.forge_job_limits WHERE name = :handler) AS l
                """.formatted(JobRows.HELD)))
                .param("handler", handler)
                .param("names", names.toArray(String[]::new))
                .param("group", group, Types.VARCHAR)
                .query((row, n) -> {
                    OffsetDateTime startableAt = row.getObject(5, OffsetDateTime.class);
                    return new LimitState(
                            row.getObject(1, Integer.class),
                            row.getInt(2),
                            group == null ? null : row.getObject(3, Integer.class),
                            row.getInt(4),
                            startableAt == null ? null : startableAt.toInstant(),
                            group != null && row.getBoolean(6));
                })
                .optional();
    }

    /**
     * Returns a few jobs that nodes hold, the oldest claim first.
     *
     * @param group only those of this group; null: all of these names
     */
    public List<Holder> holders(Collection<String> names, @Nullable String group) {
        return client.sql(schema.sql("""
                SELECT id, worker_id, claimed_at FROM (
                    SELECT id, worker_id, claimed_at FROM ~.forge_jobs
                    WHERE status IN %s AND name = ANY (:names::text[])
                      AND (:group::text IS NULL OR job_group = :group) LIMIT 1000) AS held
                ORDER BY claimed_at LIMIT %d
                """.formatted(JobRows.HELD, MOST_HOLDERS)))
                .param("names", names.toArray(String[]::new))
                .param("group", group, Types.VARCHAR)
                .query((row, n) -> new Holder(
                        row.getObject(1, UUID.class),
                        row.getObject(2, UUID.class),
                        row.getObject(3, OffsetDateTime.class).toInstant()))
                .list();
    }

    /** Returns the job that must end before another one of an ordered group may start; empty if there is no active job. */
    public Optional<UUID> first(Collection<String> names, String group) {
        return client.sql(schema.sql("""
                SELECT first.id
                FROM unnest(:names::text[]) AS n (name)
                CROSS JOIN LATERAL (
                    SELECT j.created_at, j.id FROM ~.forge_jobs j
                    WHERE j.job_group = :group AND j.job_group <> '' AND j.name = n.name AND j.status IN %s AND j.waits_for IS NULL
                    ORDER BY j.created_at, j.id LIMIT 1) AS first
                ORDER BY first.created_at, first.id LIMIT 1
                """.formatted(JobRows.ACTIVE)))
                .param("names", names.toArray(String[]::new))
                .param("group", group)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional();
    }
}

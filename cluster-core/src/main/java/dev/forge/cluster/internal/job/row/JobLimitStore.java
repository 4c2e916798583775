// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.Collection;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Limits of jobs in {@code forge_job_limits}, and weights of groups. Claims read them there: no node keeps a copy. */
public final class JobLimitStore {

    private final Tables tables;

    public JobLimitStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** Records what a handler declares. Limits that were set at run time stay. */
    public void declare(String name, JobLimits declared, boolean ordered) {
        bind(tables.sql(Schema.BY_NODE + """
                INSERT INTO ~.forge_job_limits AS l
                    (name, concurrency, group_concurrency, group_rate, group_period, group_burst, ordered, declared_concurrency,
                     declared_group_concurrency, declared_group_rate, declared_group_period, declared_group_burst)
                SELECT :name, d.*, :ordered, d.*
                FROM (SELECT :concurrency::int, :group_concurrency::int, :rate::bigint, :period * interval '1 millisecond',
                             :burst::bigint) AS d
                ON CONFLICT (name) DO UPDATE
                SET ordered = EXCLUDED.ordered, declared_concurrency = EXCLUDED.declared_concurrency,
                    declared_group_concurrency = EXCLUDED.declared_group_concurrency,
                    declared_group_rate = EXCLUDED.declared_group_rate,
                    declared_group_period = EXCLUDED.declared_group_period,
                    declared_group_burst = EXCLUDED.declared_group_burst,
                    concurrency = CASE WHEN l.overridden THEN l.concurrency ELSE EXCLUDED.concurrency END,
                    group_concurrency = CASE WHEN l.overridden THEN l.group_concurrency ELSE EXCLUDED.group_concurrency END,
                    group_rate = CASE WHEN l.overridden THEN l.group_rate ELSE EXCLUDED.group_rate END,
                    group_period = CASE WHEN l.overridden THEN l.group_period ELSE EXCLUDED.group_period END,
                    group_burst = CASE WHEN l.overridden THEN l.group_burst ELSE EXCLUDED.group_burst END,
                    changed_at = clock_timestamp()
                WHERE (l.ordered, l.declared_concurrency, l.declared_group_concurrency, l.declared_group_rate,
                       l.declared_group_period, l.declared_group_burst)
                      IS DISTINCT FROM
                      (EXCLUDED.ordered, EXCLUDED.declared_concurrency, EXCLUDED.declared_group_concurrency,
                       EXCLUDED.declared_group_rate, EXCLUDED.declared_group_period, EXCLUDED.declared_group_burst)
                """), name, declared)
                .param("ordered", ordered)
                .update();
    }

    /** Records that these handlers declare no limits. Limits that were set at run time stay. */
    public void declareNone(Collection<String> names) {
        String[] all = names.toArray(String[]::new);
        tables.sql(Schema.BY_NODE + "DELETE FROM ~.forge_job_limits WHERE name = ANY (?::text[]) AND NOT overridden")
                .param(all)
                .update();
        tables.sql(Schema.BY_NODE + """
                UPDATE ~.forge_job_limits
                SET ordered = false, declared_concurrency = NULL, declared_group_concurrency = NULL,
                    declared_group_rate = NULL, declared_group_period = NULL, declared_group_burst = NULL, changed_at = clock_timestamp()
                WHERE name = ANY (?::text[])
                  AND (ordered OR num_nonnulls(declared_concurrency, declared_group_concurrency, declared_group_rate) > 0)
                """).param(all).update();
    }

    /** Sets limits at run time; returns false if the same were set at run time before. */
    public boolean override(String name, JobLimits limits) {
        return bind(tables.sql(Schema.BY_NODE + """
                INSERT INTO ~.forge_job_limits AS l
                    (name, overridden, concurrency, group_concurrency, group_rate, group_period, group_burst)
                VALUES (:name, true, :concurrency, :group_concurrency, :rate, :period * interval '1 millisecond', :burst)
                ON CONFLICT (name) DO UPDATE
                SET overridden = true, concurrency = EXCLUDED.concurrency, group_concurrency = EXCLUDED.group_concurrency,
                    group_rate = EXCLUDED.group_rate, group_period = EXCLUDED.group_period, group_burst = EXCLUDED.group_burst,
                    changed_at = clock_timestamp()
                WHERE NOT l.overridden OR (l.concurrency, l.group_concurrency, l.group_rate, l.group_period, l.group_burst)
                      IS DISTINCT FROM
                      (EXCLUDED.concurrency, EXCLUDED.group_concurrency, EXCLUDED.group_rate, EXCLUDED.group_period, EXCLUDED.group_burst)
                """), name, limits).update() == 1;
    }

    /** Returns to what the handler declares; false if no limits were set at run time. */
    public boolean reset(String name) {
        return tables.sql(Schema.BY_NODE + """
                UPDATE ~.forge_job_limits
                SET overridden = false, concurrency = declared_concurrency, group_concurrency = declared_group_concurrency,
                    group_rate = declared_group_rate, group_period = declared_group_period, group_burst = declared_group_burst,
                    changed_at = clock_timestamp()
                WHERE name = ? AND overridden
                """).param(name).update() == 1;
    }

    /** Returns the limits that hold for jobs of a name; empty if there are none. */
    public Optional<JobLimits> find(String name) {
        return tables.sql("""
                SELECT concurrency, group_concurrency, group_rate, extract(epoch FROM group_period) * 1000, group_burst
                FROM ~.forge_job_limits WHERE name = ?
                """).param(name).query((row, n) -> limits(row, 1)).optional();
    }

    /** Reads limits from five columns: concurrency, concurrency of a group, rate, period in milliseconds, burst. */
    public static JobLimits limits(ResultSet row, int from) throws SQLException {
        Long rate = row.getObject(from + 2, Long.class);
        return new JobLimits(
                row.getObject(from, Integer.class),
                row.getObject(from + 1, Integer.class),
                rate == null
                        ? null
                        : new RateLimit(rate, Duration.ofMillis(row.getLong(from + 3)), row.getLong(from + 4)));
    }

    private static JdbcClient.StatementSpec bind(JdbcClient.StatementSpec statement, String name, JobLimits limits) {
        RateLimit rate = limits.groupRate();
        return statement
                .param("name", name)
                .param("concurrency", limits.concurrency(), Types.INTEGER)
                .param("group_concurrency", limits.groupConcurrency(), Types.INTEGER)
                .param("rate", rate == null ? null : rate.requests(), Types.BIGINT)
                .param("period", rate == null ? null : rate.per().toMillis(), Types.BIGINT)
                .param("burst", rate == null ? null : rate.burst(), Types.BIGINT);
    }

    /**
     * Returns the names of handlers with a limit of {@linkplain JobLimits#concurrency their jobs}, and records in the row of the node
     * that it obeys these. Other nodes claim such jobs only when all nodes obey, so a node must not claim without the limit after
     * this call.
     */
    public Set<String> obey(UUID node) {
        return tables.sql("""
                WITH limited AS MATERIALIZED (
                    -- Operators may add limits of any name by SQL; only those of handlers matter.
                    SELECT coalesce(array_agg(d.name::text ORDER BY d.name), '{}') AS names
                    FROM ~.forge_job_limits d JOIN ~.forge_job_names k ON k.name = d.name WHERE d.concurrency IS NOT NULL
                ), told AS (
                    UPDATE ~.forge_nodes n SET limited_names = l.names FROM limited l
                    WHERE n.id = ? AND n.limited_names IS DISTINCT FROM l.names)
                SELECT names FROM limited
                """)
                .param(node)
                .query((row, n) -> Set.of((String[]) row.getArray(1).getArray()))
                .single();
    }

    // Weights -----------------------------------------------------------------------------------------------

    /**
     * Sets how many jobs a group may start whenever its turn comes; null: one. Returns false if the group had that weight before.
     */
    public boolean weigh(String name, String group, @Nullable Integer weight) {
        if (weight == null) {
            return tables.sql(Schema.BY_NODE + "DELETE FROM ~.forge_job_weights WHERE name = ? AND job_group = ?")
                            .params(name, group)
                            .update()
                    == 1;
        }
        return tables.sql(Schema.BY_NODE + """
                        INSERT INTO ~.forge_job_weights AS w (name, job_group, weight) VALUES (?, ?, ?)
                        ON CONFLICT (name, job_group) DO UPDATE SET weight = EXCLUDED.weight WHERE w.weight <> EXCLUDED.weight
                        """).params(name, group, weight).update() == 1;
    }

    // Housekeeping ------------------------------------------------------------------------------------------

    /** Deletes rates that no longer matter; returns how many. */
    public int purgeRates(int most) {
        return tables.sql("""
                DELETE FROM ~.forge_job_rates
                WHERE (name, job_group) IN (
                    SELECT name, job_group FROM ~.forge_job_rates
                    WHERE next_at < clock_timestamp() - interval '1 minute'
                    ORDER BY next_at LIMIT ? FOR UPDATE SKIP LOCKED)
                """).param(most).update();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobConditions;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobFilter;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Counts jobs that match a filter, at a cost that does not depend on the size of the table. */
public final class JobCountReports {

    /** How many jobs of each kind are read. */
    private static final int LOOKED_THROUGH = 10_000;

    private final Schema schema;
    private final JdbcClient client;

    public JobCountReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * Counts all jobs among the last 10,000 that were enqueued; of older ones, those that have not ended and those among the last 10,000
     * that have.
     */
    public JobCount count(JobFilter filter) {
        List<String> places = places(filter);
        // The first place covers the whole table if the table is small. Together the others cover it, too.
        String others = IntStream.range(1, places.size())
                .mapToObj("(SELECT count(*) FROM place%d) < :most"::formatted)
                .collect(Collectors.joining(" AND "));
        return search(filter, places, """
                        SELECT least(jobs, :most), jobs <= :most AND ((SELECT count(*) FROM place0) < :most%s)
                        FROM (SELECT count(*) AS jobs FROM found) AS counted
                        """.formatted(others.isEmpty() ? "" : " OR " + others))
                .query((row, n) -> new JobCount(row.getLong(1), row.getBoolean(2)))
                .single();
    }

    /** Returns a query on {@code found}, the ids that match a filter, and on the places where they were looked for. */
    private JdbcClient.StatementSpec search(JobFilter filter, List<String> places, String query) {
        var parameters = new HashMap<String, @Nullable Object>();
        parameters.put("most", LOOKED_THROUGH);
        String conditions = conditions(filter, parameters);
        String sources = IntStream.range(0, places.size())
                .mapToObj(i -> """
                        place%d AS MATERIALIZED (
                            SELECT id, name, status, created_at FROM ~.forge_jobs %s LIMIT (SELECT :most::int))
                        """.formatted(i, places.get(i)))
                .collect(Collectors.joining(", "));
        String found = IntStream.range(0, places.size())
                .mapToObj(i -> "SELECT id FROM place%d WHERE true%s".formatted(i, conditions))
                .collect(Collectors.joining(" UNION "));
        return client.sql(schema.sql("WITH %s, found AS (%s) %s".formatted(sources, found, query)))
                .params(parameters);
    }

    private static String conditions(JobFilter filter, Map<String, @Nullable Object> parameters) {
        var conditions = new StringBuilder();
        if (filter.name() != null) {
            conditions.append(" AND name = :name");
            parameters.put("name", filter.name());
        }
        if (!filter.statuses().isEmpty()) {
            conditions.append(" AND status = ANY (:statuses)");
            parameters.put("statuses", JobConditions.words(filter.statuses()));
        }
        if (filter.createdFrom() != null) {
            conditions.append(" AND created_at >= :createdFrom");
            parameters.put("createdFrom", JobConditions.storable(filter.createdFrom()));
        }
        if (filter.createdBefore() != null) {
            conditions.append(" AND created_at < :createdBefore");
            parameters.put("createdBefore", JobConditions.storable(filter.createdBefore()));
        }
        return conditions.toString();
    }

    /**
     * Returns where to look for the jobs of a filter, each place in the order of an index. The first one is the whole table;
     * further ones together hold all jobs in the statuses of the filter.
     */
    private static List<String> places(JobFilter filter) {
        var places = new ArrayList<String>();
        places.add("ORDER BY id DESC");
        boolean selectsTime = filter.createdFrom() != null || filter.createdBefore() != null;
        if (filter.name() == null && filter.statuses().isEmpty() && !selectsTime) {
            return places;
        }
        Set<JobStatus> statuses =
                filter.statuses().isEmpty() ? EnumSet.allOf(JobStatus.class) : EnumSet.copyOf(filter.statuses());
        if (statuses.contains(JobStatus.PENDING)) {
            places.add("""
                    WHERE status = 'pending' AND waits_for IS NULL%s
                    ORDER BY name, coalesce(worker_capability, ''), %s DESC, scheduled_at
                    """.formatted(filter.name() == null ? "" : " AND name = :name", Queue.RANK));
            places.add("WHERE waits_for IS NOT NULL ORDER BY waits_for");
        }
        if (statuses.contains(JobStatus.CLAIMED) || statuses.contains(JobStatus.RUNNING)) {
            places.add("WHERE status IN %s ORDER BY name, job_group, worker_id".formatted(JobRows.HELD));
        }
        for (JobPurgeStore.Kind kind : JobPurgeStore.Kind.values()) {
            if (statuses.stream().anyMatch(kind::mayInclude)) {
                places.add("WHERE %s ORDER BY %s DESC".formatted(kind.condition, kind.age));
            }
        }
        return places;
    }
}

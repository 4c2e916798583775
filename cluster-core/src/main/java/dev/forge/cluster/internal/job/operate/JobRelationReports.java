// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads which jobs wait for which others, for operators. Relations end when a job stops waiting. */
public final class JobRelationReports {

    /** How many jobs of each kind are returned for one job. */
    public static final int MOST_RELATED = 10;

    private static final String BATCH = "batch";
    private static final String WAITER = "waiter";

    private final Schema schema;
    private final JdbcClient client;

    public JobRelationReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * The relations of a job.
     *
     * @param waitsFor jobs that must end before it may run, at most ten; some of them may have ended
     * @param batch the batch that must end before it may run; null: none
     * @param awaitedBy jobs that wait for its end, at most ten
     */
    public record Relations(List<UUID> waitsFor, @Nullable UUID batch, List<UUID> awaitedBy) {

        /** Those of a job that waits for nothing, and that no job waits for. */
        public static final Relations NONE = new Relations(List.of(), null, List.of());
    }

    private record Row(UUID job, String kind, UUID other) {}

    /** Returns the relations of those of these jobs that have any. */
    public Map<UUID, Relations> of(Collection<UUID> jobs) {
        if (jobs.isEmpty()) {
            return Map.of();
        }
        var relations = new HashMap<UUID, Relations>();
        for (Row row : rows(jobs)) {
            relations.merge(row.job, relation(row), JobRelationReports::together);
        }
        return relations;
    }

    private List<Row> rows(Collection<UUID> jobs) {
        return client.sql(schema.sql("""
                WITH page AS MATERIALIZED (
                    SELECT j.id, CASE WHEN j.status = 'pending' THEN j.waits_for END AS waits_for
                    FROM ~.forge_jobs j WHERE j.id = ANY (:ids::uuid[]))
                SELECT p.id, CASE WHEN EXISTS (SELECT FROM ~.forge_job_batches b WHERE b.id = p.waits_for) THEN '%1$s' ELSE 'job' END,
                       p.waits_for
                FROM page p WHERE p.waits_for <> p.id
                UNION ALL
                SELECT p.id, 'job', d.after_id FROM page p
                CROSS JOIN LATERAL (
                    SELECT d.after_id FROM ~.forge_job_dependencies d WHERE d.job_id = p.id ORDER BY d.after_id LIMIT %3$d) AS d
                WHERE p.waits_for = p.id
                UNION ALL
                SELECT p.id, '%2$s', w.id FROM page p
                CROSS JOIN LATERAL (
                    SELECT * FROM (
                        (SELECT j.id FROM ~.forge_jobs j WHERE j.waits_for = p.id AND j.id <> p.id AND j.status = 'pending'
                         ORDER BY j.waits_for LIMIT (SELECT %3$d))
                        UNION
                        (SELECT d.job_id FROM ~.forge_job_dependencies d WHERE d.after_id = p.id
                         ORDER BY d.after_id LIMIT (SELECT %3$d))) AS any_waiter (id)
                    LIMIT %3$d) AS w
                """.formatted(BATCH, WAITER, MOST_RELATED)))
                .param("ids", jobs.toArray(UUID[]::new))
                .query((row, n) ->
                        new Row(row.getObject(1, UUID.class), row.getString(2), row.getObject(3, UUID.class)))
                .list();
    }

    private static Relations relation(Row row) {
        return switch (row.kind) {
            case BATCH -> new Relations(List.of(), row.other, List.of());
            case WAITER -> new Relations(List.of(), null, List.of(row.other));
            default -> new Relations(List.of(row.other), null, List.of());
        };
    }

    private static Relations together(Relations one, Relations other) {
        return new Relations(
                joined(one.waitsFor, other.waitsFor),
                one.batch == null ? other.batch : one.batch,
                joined(one.awaitedBy, other.awaitedBy));
    }

    private static List<UUID> joined(List<UUID> some, List<UUID> others) {
        var all = new ArrayList<>(some);
        all.addAll(others);
        return List.copyOf(all);
    }
}

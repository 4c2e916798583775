// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Counts jobs that failed recently. Retried and deleted jobs do not count, unlike in the history of jobs. */
public final class JobFailureReports {

    /** How many jobs of a status, the last that ended, are counted. */
    public static final int MOST_COUNTED = 1_000;

    private final Schema schema;
    private final JdbcClient client;

    public JobFailureReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * Jobs of a name that failed.
     *
     * @param status failed or abandoned
     */
    public record Failed(String name, JobStatus status, long jobs) {}

    /**
     * Returns the names of jobs that failed for good or were abandoned within that time, those with the most jobs first, up to the
     * limit.
     *
     * @param reserved prefixes of names that are left out
     */
    public List<Failed> failed(Duration within, List<String> reserved, int limit) {
        String recent = Stream.of(JobPurgeStore.Kind.FAILED, JobPurgeStore.Kind.ABANDONED, JobPurgeStore.Kind.RETAINED)
                .map(kind -> """
                        SELECT name, status FROM (
                            SELECT name, status, finished_at FROM ~.forge_jobs WHERE %s
                            ORDER BY %s DESC LIMIT (SELECT %d)) AS latest
                        WHERE status IN ('failed', 'abandoned') AND finished_at > now() - :within * interval '1 millisecond'
                        """.formatted(kind.condition, kind.age, MOST_COUNTED))
                .collect(Collectors.joining(" UNION ALL "));
        return client.sql(schema.sql("""
                        SELECT name, status, count(*) FROM (%s) AS recent
                        WHERE NOT EXISTS (SELECT FROM unnest(:reserved::text[]) AS r (prefix) WHERE starts_with(name, r.prefix))
                        GROUP BY name, status ORDER BY count(*) DESC, name, status LIMIT :limit
                        """.formatted(recent)))
                .param("within", within.toMillis())
                .param("reserved", reserved.toArray(String[]::new))
                .param("limit", limit)
                .query((row, n) ->
                        new Failed(row.getString(1), EnumText.parse(JobStatus.class, row.getString(2)), row.getLong(3)))
                .list();
    }
}

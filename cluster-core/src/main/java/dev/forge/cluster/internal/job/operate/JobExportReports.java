// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Prints jobs as JSON and parses such lines. */
public final class JobExportReports {

    private final Schema schema;
    private final JdbcClient client;

    public JobExportReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** How many bytes the values of a page of exported jobs may have. */
    private static final int EXPORTED_BYTES = 8_000_000;

    /**
     * Returns jobs as JSON, in the order of their ids in the list: as many of the first ones as a page may have.
     *
     * @return for each job that the page has room for its line; null for those that no longer exist
     */
    public List<@Nullable String> export(List<UUID> ids) {
        return client
                .sql(schema.sql("""
                        WITH wanted AS MATERIALIZED (
                            SELECT u.id, u.n, sum(coalesce(s.bytes, 0)) OVER (ORDER BY u.n) AS total
                            FROM unnest(:ids::uuid[]) WITH ORDINALITY AS u (id, n)
                            LEFT JOIN LATERAL (SELECT greatest(0, coalesce(j.body_bytes, %1$d / 2))::bigint + coalesce(octet_length(j.last_error), 0) AS bytes
                                               FROM ~.forge_jobs j WHERE j.id = u.id OFFSET 0) AS s ON true)
                        SELECT (SELECT jsonb_strip_nulls(jsonb_build_object(
                                    'id', j.id, 'name', j.name, 'status', j.status, 'priority', j.priority,
                                    'capability', j.worker_capability, 'maxAttempts', j.max_attempts, 'attempts', j.attempts,
                                    'uniqueKey', j.unique_key, 'group', j.job_group, 'tags', j.tags, 'metadata', j.metadata,
                                    'createdAt', j.created_at, 'finishedAt', j.finished_at, 'error', j.last_error))
                                -- Members of a payload that are null stay.
                                || jsonb_build_object('payload', j.payload)
                                FROM ~.forge_jobs j WHERE j.id = w.id)::text
                        FROM wanted w WHERE w.total <= %1$d OR w.n = 1 ORDER BY w.n
                        """.formatted(EXPORTED_BYTES)))
                .param("ids", ids.toArray(UUID[]::new))
                .query((row, n) -> Optional.ofNullable(row.getString(1)))
                .list()
                .stream()
                .<@Nullable String>map(line -> line.orElse(null))
                .toList();
    }

    /** The members of an exported job that a new one takes over. */
    public record Exported(
            @Nullable String name,
            @Nullable String payload,
            @Nullable Integer priority,
            @Nullable String capability,
            @Nullable Integer maxAttempts,
            @Nullable String uniqueKey,
            @Nullable String group,
            List<String> tags,
            List<String> metadataKeys,
            List<String> metadataValues) {}

    /**
     * Reads an exported job. By the database, which returns the payload as it was.
     *
     * @throws org.springframework.dao.DataAccessException if the line is not a JSON object with such members
     */
    public Exported parse(String line) {
        return client.sql("""
                        SELECT l ->> 'name', (l -> 'payload')::text, (l ->> 'priority')::int, l ->> 'capability',
                               (l ->> 'maxAttempts')::int, l ->> 'uniqueKey', l ->> 'group',
                               ARRAY(SELECT jsonb_array_elements_text(coalesce(l -> 'tags', '[]'))),
                               ARRAY(SELECT key FROM jsonb_each_text(coalesce(l -> 'metadata', '{}')) ORDER BY key),
                               ARRAY(SELECT coalesce(value, '') FROM jsonb_each_text(coalesce(l -> 'metadata', '{}')) ORDER BY key)
                        FROM (SELECT ?::jsonb) AS line (l)
                        """)
                .param(line)
                .query((row, n) -> new Exported(
                        row.getString(1),
                        row.getString(2),
                        row.getObject(3, Integer.class),
                        row.getString(4),
                        row.getObject(5, Integer.class),
                        row.getString(6),
                        row.getString(7),
                        List.of((String[]) row.getArray(8).getArray()),
                        List.of((String[]) row.getArray(9).getArray()),
                        List.of((String[]) row.getArray(10).getArray())))
                .single();
    }
}

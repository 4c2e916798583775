// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.purge;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.Names;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Rows that the server refuses to delete, in {@code forge_undeletable_rows}. Purges leave them out until they are due again. */
public final class UndeletableStore {

    /** The tables whose rows are set aside. */
    public static final List<String> TABLES = List.of("forge_jobs", "forge_job_batches", "forge_workflow_runs");

    private static final Duration FIRST_RETRY = Duration.ofHours(1);

    /** As long as the row has been known, so that many such rows cost little, but at most this. */
    private static final Duration LONGEST_RETRY = Duration.ofDays(1);

    private final Schema schema;
    private final JdbcClient client;

    public UndeletableStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * A row that cannot be deleted.
     *
     * @param reason SQLSTATE and names, never values; printable: triggers name constraints as they like
     */
    public record Undeletable(UUID id, Duration age, String reason) {}

    /** Returns the SQL condition that a row is not set aside at present. */
    public static String notSetAside(String table, String id) {
        return """
                NOT EXISTS (SELECT FROM ~.forge_undeletable_rows u
                            WHERE u.table_name = '%s' AND u.row_id = %s AND u.retry_at > now())""".formatted(table, id);
    }

    /** Sets rows aside, or sets them aside again; returns those that were not known before. */
    public Set<UUID> setAside(String table, Collection<UUID> ids, List<String> reasons) {
        return new HashSet<>(client
                .sql(schema.sql("""
                INSERT INTO ~.forge_undeletable_rows AS u (table_name, row_id, retry_at, reason)
                SELECT :table, id, clock_timestamp() + :first * interval '1 second', reason
                FROM unnest(:ids::uuid[], :reasons::text[]) AS d (id, reason) ORDER BY id
                ON CONFLICT (table_name, row_id) DO UPDATE
                SET reason = excluded.reason, failures = least(u.failures, 1000000) + 1,
                    retry_at = excluded.retry_at + least(clock_timestamp() - u.since, :longest * interval '1 second')
                RETURNING CASE WHEN u.failures = 1 THEN u.row_id END
                """))
                .param("table", table)
                .param("first", FIRST_RETRY.toSeconds())
                .param("longest", LONGEST_RETRY.toSeconds())
                .param("ids", ids.toArray(UUID[]::new))
                .param("reasons", Names.printable(reasons).toArray(String[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list()
                .stream()
                .filter(Objects::nonNull)
                .toList());
    }

    /**
     * Forgets rows that no longer have to be deleted.
     *
     * @param remaining an SQL query that finds the row {@code u.row_id} as long as it has to be deleted
     */
    public int forget(String table, String remaining) {
        return client.sql(schema.sql(
                        "DELETE FROM ~.forge_undeletable_rows u WHERE u.table_name = :table AND NOT EXISTS (%s)"
                                .formatted(remaining)))
                .param("table", table)
                .update();
    }

    /** Returns how many rows of each table cannot be deleted, tables without such rows included. */
    public SortedMap<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        TABLES.forEach(table -> counts.put(table, 0L));
        client.sql(schema.sql("SELECT table_name, count(*) FROM ~.forge_undeletable_rows GROUP BY 1"))
                .query(row -> {
                    counts.put(row.getString(1), row.getLong(2));
                });
        return counts;
    }

    /** Returns the rows of a table that cannot be deleted, those that have been known for longest first. */
    public List<Undeletable> oldest(String table, int limit) {
        return client.sql(schema.sql("""
                SELECT row_id, (extract(epoch FROM clock_timestamp() - since) * 1000)::bigint, left(reason, 500)
                FROM ~.forge_undeletable_rows WHERE table_name = :table ORDER BY since, row_id LIMIT :limit
                """))
                .param("table", table)
                .param("limit", limit)
                .query((row, n) -> new Undeletable(
                        row.getObject(1, UUID.class),
                        Duration.ofMillis(Math.max(0, row.getLong(2))),
                        Names.printable(row.getString(3))))
                .list();
    }
}

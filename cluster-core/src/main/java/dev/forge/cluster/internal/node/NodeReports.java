// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.database.Schema;
import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads {@code forge_nodes} for the API, the endpoint and metrics. */
public final class NodeReports {

    /** The longest list of nodes. */
    private static final int MOST_NODES = 1_000;

    private static final String COLUMNS = """
            id, left(node_key, 500), left(name, 500) AS name, left(hostname, 500), roles, worker_capabilities, status,
            left(version, 500), started_at, last_heartbeat, current_connections, current_jobs, cpu_usage, memory_usage, coalesce(info ->> 'mode', 'auto'),
            (extract(epoch FROM clock_timestamp() - least(greatest(last_heartbeat, '1970-01-01'), clock_timestamp()))
             * 1000)::bigint,
            -- Operators may have edited the column.
            CASE WHEN info ->> 'slots' ~ '^[0-9]{1,9}$' THEN (info ->> 'slots')::int END""";

    private final Schema schema;
    private final JdbcClient jdbc;

    public NodeReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(source);
    }

    /** A node as operators see it. */
    public record Row(
            UUID id,
            String key,
            String name,
            String hostname,
            String mode,
            List<String> roles,
            List<String> capabilities,
            String status,
            String version,
            OffsetDateTime startedAt,
            OffsetDateTime lastHeartbeat,
            Duration heartbeatAge,
            int connections,
            int jobs,
            @Nullable Integer slots,
            @Nullable Double cpu,
            @Nullable Double memory) {}

    /** Returns the nodes in the table in the order in which they started, at most 1,000; those that are not dead come first. */
    public List<Row> all() {
        return jdbc.sql(schema.sql("""
                SELECT * FROM (
                    SELECT %s FROM ~.forge_nodes ORDER BY status = 'dead', started_at DESC, id LIMIT %d) AS newest
                ORDER BY started_at, id
                """.formatted(COLUMNS, MOST_NODES)))
                .query((row, n) -> row(row))
                .list();
    }

    /** Returns the nodes that are not dead ordered by name, at most 1,000. */
    public List<Row> live() {
        return jdbc.sql(schema.sql(
                        "SELECT %s FROM ~.forge_nodes WHERE status <> 'dead' ORDER BY name, started_at, id LIMIT %d"
                                .formatted(COLUMNS, MOST_NODES)))
                .query((row, n) -> row(row))
                .list();
    }

    /** Returns a node by the id of its membership. */
    public Optional<Row> find(UUID id) {
        return jdbc.sql(schema.sql("SELECT %s FROM ~.forge_nodes WHERE id = ?".formatted(COLUMNS)))
                .param(id)
                .query((row, n) -> row(row))
                .optional();
    }

    /** A node that drains, and since when. */
    public record Draining(UUID id, String name, Duration since) {}

    /** Returns the nodes that have been draining for longer than that, the longest first, up to the limit. */
    public List<Draining> drainingFor(Duration time, int limit) {
        return jdbc.sql(schema.sql("""
                SELECT id, left(name, 500), (extract(epoch FROM clock_timestamp() - draining_since) * 1000)::bigint
                FROM ~.forge_nodes
                WHERE status = 'draining' AND draining_since < clock_timestamp() - ? * interval '1 millisecond'
                ORDER BY draining_since, id LIMIT ?
                """))
                .params(time.toMillis(), limit)
                .query((row, n) ->
                        new Draining(row.getObject(1, UUID.class), row.getString(2), Duration.ofMillis(row.getLong(3))))
                .list();
    }

    /**
     * A name under which nodes joined and were declared dead.
     *
     * @param deaths how many of them
     */
    public record Flapping(String name, int deaths) {}

    /** Returns the names under which at least that many nodes joined within that time and are dead, up to the limit. */
    public List<Flapping> flapping(Duration within, int deaths, int limit) {
        return jdbc.sql(schema.sql("""
                SELECT left(name, 500), count(*) FROM ~.forge_nodes
                WHERE status = 'dead' AND started_at > clock_timestamp() - ? * interval '1 millisecond'
                GROUP BY name HAVING count(*) >= ? ORDER BY count(*) DESC, name LIMIT ?
                """))
                .params(within.toMillis(), deaths, limit)
                .query((row, n) -> new Flapping(row.getString(1), row.getInt(2)))
                .list();
    }

    /** Returns the names of nodes by the ids of their memberships, also of those that left in the last 30 days. */
    public Map<UUID, String> names(Collection<UUID> ids) {
        var names = new HashMap<UUID, String>();
        if (!ids.isEmpty()) {
            jdbc.sql(schema.sql("""
                            SELECT id, left(name, 500) FROM ~.forge_nodes WHERE id = ANY (:ids::uuid[])
                            UNION ALL
                            SELECT id, left(name, 500) FROM ~.forge_former_nodes WHERE id = ANY (:ids::uuid[])
                            """)).param("ids", ids.toArray(UUID[]::new)).query(row -> {
                names.put(row.getObject(1, UUID.class), row.getString(2));
            });
        }
        return names;
    }

    private static Row row(ResultSet row) throws SQLException {
        return new Row(
                row.getObject(1, UUID.class),
                row.getString(2),
                row.getString(3),
                row.getString(4),
                row.getString(15),
                texts(row.getArray(5)),
                texts(row.getArray(6)),
                row.getString(7),
                row.getString(8),
                row.getObject(9, OffsetDateTime.class),
                row.getObject(10, OffsetDateTime.class),
                Duration.ofMillis(row.getLong(16)),
                row.getInt(11),
                row.getInt(12),
                row.getObject(17, Integer.class),
                row.getObject(13, Double.class),
                row.getObject(14, Double.class));
    }

    private static List<String> texts(Array array) throws SQLException {
        return Arrays.asList((String[]) array.getArray());
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.database.AdvisoryKeys;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.node.NodeStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads the nodes in {@code forge_nodes} together with the liveness locks that their sessions hold. */
final class ObservationStore {

    private final Schema schema;
    private final JdbcClient jdbc;

    ObservationStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
    }

    /**
     * A node as an observer sees it.
     *
     * @param lockMissing whether the node should hold its liveness lock but does not
     * @param candidate whether its roles and mode allow it to lead
     * @param staleAfter how long it may be silent before it is stale, as it declared itself
     * @param deadAfter how long it may be silent before it is dead, as it declared itself
     * @param sessionIdle how long ago the session that holds its liveness lock last ran a statement; null if there is no such
     *     session, or if this database role may not see it
     */
    record ObservedNode(
            UUID id,
            String name,
            NodeStatus status,
            long beats,
            boolean lockMissing,
            boolean candidate,
            boolean worker,
            Duration staleAfter,
            Duration deadAfter,
            @Nullable Duration sessionIdle) {}

    /**
     * All nodes at one instant.
     *
     * @param serverStart when the server was started; after a restart every session is new
     */
    record Observation(OffsetDateTime serverStart, List<ObservedNode> nodes) {}

    /** Reads all nodes in the table, dead ones included. */
    Observation observe() {
        var start = new OffsetDateTime[1];
        List<ObservedNode> nodes = jdbc
                .sql(schema.sql(
                        """
                WITH held AS MATERIALIZED (
                    SELECT l.objid, a.state_change FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
                    WHERE l.locktype = 'advisory' AND l.classid = :class_id AND l.objsubid = 2 AND l.granted
                      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
                SELECT pg_postmaster_start_time(), n.id, left(n.name, 500), n.status, n.beats,
                       n.liveness_key IS NOT NULL AND NOT EXISTS (
                           SELECT FROM held WHERE held.objid = (n.liveness_key::bigint & 4294967295)::oid),
                       'scheduler' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') IN ('auto', 'leader'),
                       'worker' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') <> 'observer',
                       %s,
                       %s,
                       (SELECT (extract(epoch FROM clock_timestamp() - max(held.state_change)) * 1000)::bigint
                        FROM held WHERE held.objid = (n.liveness_key::bigint & 4294967295)::oid)
                FROM (VALUES (1)) AS always LEFT JOIN ~.forge_nodes n ON true
                """.formatted(NodeStore.declaredMillis("stale_at"), NodeStore.declaredMillis("dead_at"))))
                .param("class_id", AdvisoryKeys.CLASS_ID)
                .query((row, n) -> {
                    start[0] = row.getObject(1, OffsetDateTime.class);
                    return row.getObject(2) == null ? null : observedNode(row);
                })
                .list()
                .stream()
                .filter(Objects::nonNull)
                .toList();
        return new Observation(start[0], nodes);
    }

    private static ObservedNode observedNode(ResultSet row) throws SQLException {
        return new ObservedNode(
                row.getObject(2, UUID.class),
                row.getString(3),
                EnumText.parse(NodeStatus.class, row.getString(4)),
                row.getLong(5),
                row.getBoolean(6),
                row.getBoolean(7),
                row.getBoolean(8),
                Duration.ofMillis(row.getLong(9)),
                Duration.ofMillis(row.getLong(10)),
                row.getObject(11) == null ? null : Duration.ofMillis(row.getLong(11)));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node.observation;

import dev.forge.cluster.internal.database.AdvisoryKeys;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.node.NodeStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.LongSupplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads the nodes in {@code forge_nodes} together with the liveness locks that their sessions hold. */
public final class ObservationStore {

    /** How often the locks themselves are read even if all sessions are there: a pooler may keep the session of a node that died. */
    private static final Duration LOCKS_READ_AGAIN = Duration.ofSeconds(2);

    private final Schema schema;
    private final JdbcClient jdbc;
    private final LongSupplier nanos;
    private volatile @Nullable Holders holders;

    public ObservationStore(Schema schema, DataSource control, LongSupplier nanos) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
        this.nanos = nanos;
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
    public record ObservedNode(
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
    public record Observation(OffsetDateTime serverStart, List<ObservedNode> nodes) {}

    /**
     * The sessions that hold liveness locks. A lock lasts as long as its session, and to look for a session costs much less than to
     * read the lock table, which may have many thousand entries and is locked meanwhile.
     *
     * @param sessions the process of each liveness key
     */
    private record Holders(OffsetDateTime serverStart, long readAt, Map<Integer, Integer> sessions) {}

    /** Reads all nodes in the table, dead ones included. */
    public Observation observe() {
        Holders known = holders;
        long now = nanos.getAsLong();
        if (known != null && now - known.readAt < LOCKS_READ_AGAIN.toNanos()) {
            Observation observation = read(
                    HELD_BY_SESSIONS,
                    new HashMap<>(),
                    known.sessions.keySet().toArray(Integer[]::new),
                    known.sessions.values().toArray(Integer[]::new));
            if (observation.serverStart.equals(known.serverStart)
                    && observation.nodes.stream()
                            .noneMatch(node -> node.lockMissing && node.status != NodeStatus.DEAD)) {
                return observation;
            }
        }
        var sessions = new HashMap<Integer, Integer>();
        Observation observation = read(HELD, sessions, new Integer[0], new Integer[0]);
        holders = new Holders(observation.serverStart, now, sessions);
        return observation;
    }

    private static final String HELD = """
            SELECT l.objid, l.pid, a.state_change FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'advisory' AND l.classid = :class_id AND l.objsubid = 2 AND l.granted
              AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())""";

    private static final String HELD_BY_SESSIONS = """
            SELECT (k.key::bigint & 4294967295)::oid, a.pid, a.state_change
            FROM unnest(:keys::int[], :pids::int[]) AS k (key, pid) CROSS JOIN LATERAL pg_stat_get_activity(k.pid) AS a""";

    /** @param sessions receives the processes that hold the liveness locks of nodes */
    private Observation read(String held, Map<Integer, Integer> sessions, Integer[] keys, Integer[] pids) {
        var start = new OffsetDateTime[1];
        List<ObservedNode> nodes = jdbc
                .sql(schema.sql("""
                WITH held (objid, pid, state_change) AS MATERIALIZED (%s)
                SELECT pg_postmaster_start_time(), n.id, left(n.name, 500), n.status, n.beats,
                       n.liveness_key IS NOT NULL AND h.pid IS NULL,
                       'scheduler' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') IN ('auto', 'leader'),
                       'worker' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') <> 'observer',
                       %s,
                       %s,
                       (extract(epoch FROM clock_timestamp() - h.state_change) * 1000)::bigint, n.liveness_key, h.pid
                FROM (VALUES (1)) AS always LEFT JOIN ~.forge_nodes n ON true
                LEFT JOIN LATERAL (
                    SELECT max(held.pid) AS pid, max(held.state_change) AS state_change FROM held
                    WHERE held.objid = (n.liveness_key::bigint & 4294967295)::oid) AS h ON true
                """.formatted(held, declaredMillis("stale_at"), declaredMillis("dead_at"))))
                .param("class_id", AdvisoryKeys.CLASS_ID)
                .param("keys", keys)
                .param("pids", pids)
                .query((row, n) -> {
                    start[0] = row.getObject(1, OffsetDateTime.class);
                    if (row.getObject(2) == null) {
                        return null;
                    }
                    if (row.getObject(13) != null) {
                        sessions.put(row.getInt(12), row.getInt(13));
                    }
                    return observedNode(row);
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

    /** Returns an SQL expression for the milliseconds of a deadline; a day if the row, edited by hand, has no sane value. */
    public static String declaredMillis(String deadline) {
        return """
                CASE WHEN n.last_heartbeat BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
                    THEN (extract(epoch FROM
                              least(greatest(n.%1$s, n.last_heartbeat), n.last_heartbeat + interval '1 day')
                              - n.last_heartbeat) * 1000)::bigint
                    ELSE 86400000 END""".formatted(deadline);
    }
}

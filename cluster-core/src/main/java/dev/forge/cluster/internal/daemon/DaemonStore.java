// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.runtime.EnumText;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Reads and writes the rows of {@code forge_daemons} and {@code forge_daemon_pauses}.
 *
 * <p>An election decides which node runs an instance ({@link LeaderStore}); the rows show the result. The first write of a
 * term stores the term in the row. Every later write must find its own node and term there, so that a node that has lost the
 * instance changes nothing.
 */
public final class DaemonStore {

    /** The prefix of daemons among leader roles and among the handlers of nodes. */
    public static final String PREFIX = "daemon:";

    private final Schema schema;
    private final DataSource source;
    private final JdbcClient jdbc;
    private final JdbcTemplate template;
    private final DaemonReports reports;

    public DaemonStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.source = source;
        this.reports = new DaemonReports(schema, source);
        this.jdbc = JdbcClient.create(source);
        this.template = new JdbcTemplate(source);
    }

    DataSource source() {
        return source;
    }

    DaemonReports reports() {
        return reports;
    }

    /** Returns whether a leader role belongs to a daemon. */
    public static boolean isDaemon(String role) {
        return role.startsWith(PREFIX);
    }

    /** Returns the leader role of an instance. */
    public static String role(String name, int instance) {
        return PREFIX + name + (instance == 0 ? "" : "#" + instance);
    }

    /** Returns the name of the daemon to which a leader role belongs. */
    public static String nameOf(String role) {
        int number = role.lastIndexOf('#');
        return role.substring(PREFIX.length(), number < 0 ? role.length() : number);
    }

    /**
     * Inserts the rows of a daemon of scope CLUSTER. Instances that are stopped or failed become pending again, because a node
     * that runs the daemon starts.
     */
    public void register(String name, int instances) {
        jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_daemons AS d (name, instance)
                SELECT :name, i FROM generate_series(0, :instances - 1) AS i
                ON CONFLICT (name, instance) DO UPDATE SET status = 'pending', restarts = 0
                WHERE d.scope = 'cluster' AND d.status IN ('stopped', 'failed')
                """))
                .param("name", name)
                .param("instances", instances)
                .update();
    }

    /**
     * An instance that a node holds.
     *
     * @param term 0 if the daemon is not elected
     */
    public record Tenure(String name, int instance, UUID node, long term) {}

    /** The result of {@link #acquire}. */
    public sealed interface Acquisition {

        /**
         * The node holds the instance.
         *
         * @param restarts how often the instance was restarted so far
         */
        record Acquired(int restarts) implements Acquisition {}

        /** The instance is paused, stopped or failed: no node may run it. */
        record NotRunnable() implements Acquisition {}

        /** A later term holds the instance. */
        record Outdated() implements Acquisition {}
    }

    /** Stores that the elected node holds the instance, unless no node may run it. */
    public Acquisition acquire(Tenure tenure) {
        return jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_daemons AS d (name, instance, status, node_id, term)
                SELECT :name, :instance, 'acquiring', :node, :term
                WHERE NOT EXISTS (SELECT FROM ~.forge_daemon_pauses p WHERE p.name = :name)
                ON CONFLICT (name, instance) DO UPDATE
                SET scope = 'cluster', status = excluded.status, node_id = excluded.node_id, term = excluded.term,
                    started_at = NULL, note = NULL
                WHERE d.term <= excluded.term AND (d.scope = 'node' OR d.status NOT IN ('stopped', 'failed'))
                RETURNING restarts
                """))
                .param("name", tenure.name)
                .param("instance", tenure.instance)
                .param("node", tenure.node)
                .param("term", tenure.term)
                .query((row, n) -> (Acquisition) new Acquisition.Acquired(row.getInt(1)))
                .optional()
                .orElseGet(() -> isOutdated(tenure) ? new Acquisition.Outdated() : new Acquisition.NotRunnable());
    }

    private boolean isOutdated(Tenure tenure) {
        return jdbc.sql(schema.sql(
                        "SELECT EXISTS (SELECT FROM ~.forge_daemons WHERE name = ? AND instance = ? AND term > ?)"))
                .params(tenure.name, tenure.instance, tenure.term)
                .query(Boolean.class)
                .single();
    }

    /**
     * Inserts the row of a daemon of scope NODE for one node; returns its number, the lowest one that is free. Empty if the
     * node is dead: its row would never be deleted.
     */
    public OptionalInt registerOnNode(String name, UUID node) {
        // If two nodes choose the same number at once, one of them tries again.
        while (true) {
            // Locks the row of the node: a node that declares it dead comes before, or deletes the new row.
            Integer number = jdbc.sql(schema.sql("""
                    WITH self AS (SELECT id FROM ~.forge_nodes WHERE id = :node AND status <> 'dead' FOR SHARE)
                    INSERT INTO ~.forge_daemons AS d (name, instance, scope, node_id)
                    SELECT :name, free, 'node', self.id
                    FROM self, (SELECT coalesce(
                              (SELECT f.instance FROM ~.forge_daemons f WHERE f.name = :name AND f.node_id = :node
                                  AND f.scope = 'node' LIMIT 1),
                              (SELECT min(i) FROM generate_series(0, (SELECT count(*)::int FROM ~.forge_daemons f
                                                                      WHERE f.name = :name)) AS i
                               WHERE NOT EXISTS (SELECT FROM ~.forge_daemons f
                                                 WHERE f.name = :name AND f.instance = i))) AS free) AS place
                    ON CONFLICT (name, instance) DO UPDATE SET scope = d.scope
                    WHERE d.scope = 'node' AND d.node_id = excluded.node_id
                    RETURNING instance
                    """))
                    .param("name", name)
                    .param("node", node)
                    .query(Integer.class)
                    .optional()
                    .orElse(null);
            if (number != null) {
                return OptionalInt.of(number);
            }
            if (!isMember(node)) {
                return OptionalInt.empty();
            }
        }
    }

    private boolean isMember(UUID node) {
        return jdbc.sql(schema.sql("SELECT EXISTS (SELECT FROM ~.forge_nodes WHERE id = ? AND status <> 'dead')"))
                .param(node)
                .query(Boolean.class)
                .single();
    }

    /**
     * New values of a row.
     *
     * @param ranFor how long the method has run; null leaves the time of the start
     * @param error the latest exception; null leaves the former one
     * @param recovered whether the former exception is deleted
     * @param note null leaves the former note
     * @param released whether no node holds the instance any more
     */
    public record Change(
            Tenure tenure,
            DaemonStatus status,
            @Nullable Duration ranFor,
            int restarts,
            @Nullable String error,
            boolean recovered,
            @Nullable String note,
            boolean released) {}

    /** Writes rows that their node still holds in their term; returns the tenures of those. */
    public Set<Tenure> write(List<Change> changes) {
        if (changes.isEmpty()) {
            return Set.of();
        }
        return Set.copyOf(template.query(
                schema.sql("""
                UPDATE ~.forge_daemons d
                SET status = c.status, restarts = c.restarts,
                    last_error = coalesce(c.error, CASE WHEN NOT c.recovered THEN d.last_error END),
                    note = coalesce(c.note, d.note),
                    started_at = coalesce(clock_timestamp() - c.ran * interval '1 millisecond', d.started_at),
                    node_id = CASE WHEN NOT c.released THEN d.node_id END
                FROM unnest(?::text[], ?::int[], ?::uuid[], ?::bigint[], ?::text[], ?::bigint[], ?::int[], ?::text[],
                            ?::text[], ?::boolean[], ?::boolean[])
                    AS c (name, instance, node, term, status, ran, restarts, error, note, released, recovered)
                WHERE d.name = c.name AND d.instance = c.instance AND d.node_id = c.node AND d.term = c.term
                RETURNING c.name, c.instance, c.node, c.term
                """),
                statement -> {
                    SqlArrays.bind(statement, 1, "text", changes, c -> c.tenure.name);
                    SqlArrays.bind(statement, 2, "int4", changes, c -> c.tenure.instance);
                    SqlArrays.bind(statement, 3, "uuid", changes, c -> c.tenure.node);
                    SqlArrays.bind(statement, 4, "int8", changes, c -> c.tenure.term);
                    SqlArrays.bind(statement, 5, "text", changes, c -> EnumText.underscored(c.status));
                    SqlArrays.bind(statement, 6, "int8", changes, c -> c.ranFor == null ? null : c.ranFor.toMillis());
                    SqlArrays.bind(statement, 7, "int4", changes, Change::restarts);
                    SqlArrays.bind(statement, 8, "text", changes, Change::error);
                    SqlArrays.bind(statement, 9, "text", changes, Change::note);
                    SqlArrays.bind(statement, 10, "bool", changes, Change::released);
                    SqlArrays.bind(statement, 11, "bool", changes, Change::recovered);
                },
                (row, n) -> new Tenure(row.getString(1), row.getInt(2), row.getObject(3, UUID.class), row.getLong(4))));
    }

    /**
     * All daemons of the cluster, read by one statement.
     *
     * @param holders the node that holds each leader role
     * @param candidates the active nodes that may run each leader role; builds may declare different numbers of instances
     * @param finished leader roles whose instance is stopped or failed
     * @param paused names of paused daemons
     * @param ownStatus the status of this node's daemons of scope NODE, by name
     */
    public record ClusterView(
            Map<String, UUID> holders,
            Map<String, Set<UUID>> candidates,
            Set<String> finished,
            Set<String> paused,
            Map<String, DaemonStatus> ownStatus) {}

    /** Reads all daemons, and the own daemons of a node. */
    public ClusterView clusterView(UUID node) {
        var view = new ClusterView(new HashMap<>(), new HashMap<>(), new HashSet<>(), new HashSet<>(), new HashMap<>());
        jdbc.sql(schema.sql("""
                SELECT 'held', l.role, 0, l.node_id, NULL FROM ~.forge_leader_leases l
                WHERE l.role LIKE 'daemon:%' AND l.node_id IS NOT NULL AND l.lease_until > clock_timestamp()
                UNION ALL
                SELECT 'candidate', substr(h.handler, 8),
                       CASE WHEN n.info ->> h.handler ~ '^[0-9]{1,4}$' THEN (n.info ->> h.handler)::int ELSE 1 END, n.id, NULL
                FROM ~.forge_nodes n, unnest(n.handlers) AS h (handler)
                WHERE n.status = 'active' AND h.handler LIKE 'daemon:%'
                UNION ALL
                SELECT d.scope, d.name, d.instance, d.node_id, d.status FROM ~.forge_daemons d
                WHERE d.scope = 'cluster' AND d.status IN ('stopped', 'failed') OR d.scope = 'node' AND d.node_id = :node
                UNION ALL
                -- Of daemons that nodes run: operators may pause any name by SQL.
                SELECT 'paused', p.name, 0, NULL, NULL
                FROM (SELECT DISTINCT substr(h.handler, 8) AS name FROM ~.forge_nodes n, unnest(n.handlers) AS h (handler)
                      WHERE h.handler LIKE 'daemon:%') AS d
                JOIN ~.forge_daemon_pauses p ON p.name = d.name
                """))
                .param("node", node)
                .query((row, n) -> {
                    add(row, view);
                    return true;
                })
                .list();
        return view;
    }

    private static void add(ResultSet row, ClusterView view) throws SQLException {
        String name = row.getString(2);
        switch (row.getString(1)) {
            case "held" -> view.holders.put(name, row.getObject(4, UUID.class));
            case "candidate" -> {
                for (int instance = 0; instance < row.getInt(3); instance++) {
                    view.candidates
                            .computeIfAbsent(role(name, instance), r -> new HashSet<>())
                            .add(row.getObject(4, UUID.class));
                }
            }
            case "cluster" -> view.finished.add(role(name, row.getInt(3)));
            case "node" -> view.ownStatus.put(name, EnumText.parse(DaemonStatus.class, row.getString(5)));
            default -> view.paused.add(name);
        }
    }

    /** Pauses a daemon; false if it is unknown or was paused before. */
    public boolean pause(String name) {
        return jdbc.sql(schema.sql(Schema.BY_NODE + """
                INSERT INTO ~.forge_daemon_pauses (name)
                SELECT :name WHERE EXISTS (SELECT FROM ~.forge_daemons d WHERE d.name = :name)
                ON CONFLICT DO NOTHING
                """)).param("name", name).update() == 1;
    }

    /** Ends a pause; instances that are stopped or failed become pending again. Returns false if nothing changed. */
    public boolean resume(String name) {
        return jdbc.sql(schema.sql(Schema.BY_NODE + """
                WITH resumed AS (DELETE FROM ~.forge_daemon_pauses WHERE name = :name RETURNING 1),
                restarted AS (
                    UPDATE ~.forge_daemons SET status = 'pending', restarts = 0
                    WHERE name = :name AND status IN ('stopped', 'failed') RETURNING 1)
                SELECT EXISTS (SELECT FROM resumed) OR EXISTS (SELECT FROM restarted)
                """))
                .param("name", name)
                .query(Boolean.class)
                .single();
    }

    /** The number of instances of a daemon that have a status. */
    public record Count(String name, DaemonStatus status, long instances) {}

    /** Returns the number of instances by daemon and status. */
    public List<Count> counts() {
        return jdbc.sql(
                        schema.sql(
                                "SELECT name, status, count(*) FROM ~.forge_daemons GROUP BY name, status ORDER BY name, status"))
                .query((row, n) -> new Count(
                        row.getString(1), EnumText.parse(DaemonStatus.class, row.getString(2)), row.getLong(3)))
                .list();
    }

    /** The largest number of rows that one call of {@link #purge} deletes. */
    public static final int PURGE_BATCH = 1_000;

    /**
     * Releases instances of dead nodes, and deletes instances that no live node declares, unless their daemon is paused. A node
     * that does not publish a number of instances may declare any number. Skips rows that another transaction has locked.
     * Returns the larger one of both counts, at most {@link #PURGE_BATCH}.
     */
    public int purge() {
        int released = jdbc.sql(schema.sql("""
                UPDATE ~.forge_daemons SET status = 'pending', node_id = NULL
                WHERE (name, instance) IN (
                    SELECT d.name, d.instance FROM ~.forge_daemons d
                    WHERE d.scope = 'cluster' AND d.node_id IS NOT NULL
                      AND NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = d.node_id AND n.status <> 'dead')
                    ORDER BY d.name, d.instance LIMIT :limit FOR UPDATE OF d SKIP LOCKED)
                """)).param("limit", PURGE_BATCH).update();
        int deleted = jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_daemons
                WHERE (name, instance) IN (
                    SELECT d.name, d.instance FROM ~.forge_daemons d
                    WHERE d.scope = 'node'
                      AND NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = d.node_id AND n.status <> 'dead')
                       OR d.scope = 'cluster' AND d.node_id IS NULL
                      AND NOT EXISTS (SELECT FROM ~.forge_daemon_pauses p WHERE p.name = d.name)
                      AND NOT EXISTS (SELECT FROM ~.forge_nodes n
                                      WHERE n.status <> 'dead' AND 'daemon:' || d.name = ANY (n.handlers)
                                        AND CASE WHEN n.info ->> ('daemon:' || d.name) ~ '^[0-9]{1,9}$'
                                                 THEN d.instance < (n.info ->> ('daemon:' || d.name))::int ELSE true END)
                    ORDER BY d.name, d.instance LIMIT :limit FOR UPDATE OF d SKIP LOCKED)
                """)).param("limit", PURGE_BATCH).update();
        return Math.max(released, deleted);
    }

    /** Releases all instances of a node that leaves or was declared dead, in the caller's transaction. */
    public void releaseAll(UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_daemons SET status = 'pending', node_id = NULL
                WHERE (name, instance) IN (
                    SELECT name, instance FROM ~.forge_daemons WHERE node_id = ? AND scope = 'cluster'
                    ORDER BY name, instance FOR UPDATE SKIP LOCKED)
                """)).param(node).update();
        jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_daemons
                WHERE (name, instance) IN (
                    SELECT name, instance FROM ~.forge_daemons WHERE node_id = ? AND scope = 'node'
                    ORDER BY name, instance FOR UPDATE SKIP LOCKED)
                """)).param(node).update();
    }
}

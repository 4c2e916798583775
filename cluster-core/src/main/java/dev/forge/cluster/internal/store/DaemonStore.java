package dev.forge.cluster.internal.store;

import dev.forge.cluster.DaemonInfo;
import dev.forge.cluster.DaemonScope;
import dev.forge.cluster.DaemonStatus;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * The rows of {@code forge_daemons} and {@code forge_daemon_pauses}.
 *
 * <p>Who runs an instance is decided by an election ({@link LeaderStore}); these rows say what came of it. The first
 * write of a term carries it into the row, and every later one must find its own node and term there: whoever lost the
 * instance changes nothing any more.
 */
public final class DaemonStore {

    /** How the roles of daemons begin, among other leader roles, and their names among what nodes advertise. */
    public static final String PREFIX = "daemon:";

    private final Schema schema;
    private final JdbcClient jdbc;
    private final JdbcTemplate template;

    public DaemonStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(source);
        this.template = new JdbcTemplate(source);
    }

    /** Whether that leader role is a daemon's. */
    public static boolean isDaemon(String role) {
        return role.startsWith(PREFIX);
    }

    /** The leader role of an instance. */
    public static String role(String name, int instance) {
        return PREFIX + name + (instance == 0 ? "" : "#" + instance);
    }

    /** The name of the daemon whose leader role that is. */
    public static String nameOf(String role) {
        int number = role.lastIndexOf('#');
        return role.substring(PREFIX.length(), number < 0 ? role.length() : number);
    }

    /**
     * Makes sure that a daemon of the cluster has its rows. What is done or has failed is pending again: a node that runs
     * it starts.
     */
    public void introduce(String name, int instances) {
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
     * An instance in the hands of a node.
     *
     * @param term 0 where nobody is elected
     */
    public record Tenure(String name, int instance, UUID node, long term) {}

    /** What came of taking an instance over. */
    public sealed interface Acquisition {

        /**
         * It is the node's.
         *
         * @param restarts how often it was started again so far
         */
        record Acquired(int restarts) implements Acquisition {}

        /** It is paused, done or has failed: nobody is to run it. */
        record AtRest() implements Acquisition {}

        /** A later term has it. */
        record Outdated() implements Acquisition {}
    }

    /** Notes that the node which was elected has the instance, unless nobody is to run it. */
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
                .orElseGet(() -> isOutdated(tenure) ? new Acquisition.Outdated() : new Acquisition.AtRest());
    }

    private boolean isOutdated(Tenure tenure) {
        return jdbc.sql(schema.sql(
                        "SELECT EXISTS (SELECT FROM ~.forge_daemons WHERE name = ? AND instance = ? AND term > ?)"))
                .params(tenure.name, tenure.instance, tenure.term)
                .query(Boolean.class)
                .single();
    }

    /**
     * Notes that this node runs a daemon that every node runs; answers its number, the lowest that is free. Empty if the
     * node is not a member any more: a row in its name would stay, with nobody behind it.
     */
    public OptionalInt settle(String name, UUID node) {
        // Of two nodes that settle at the same moment one finds its number taken and looks again.
        while (true) {
            // Its own row is locked, so that whoever declares it dead comes before, or finds the new row and deletes
            // it.
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
     * How an instance stands now.
     *
     * @param ranFor for how long its method has run; null: it was not started since the last change
     * @param error what it threw; null: nothing since the last change
     * @param recovered whether what it threw before is of no interest any more
     * @param released whether it is nobody's from now on
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

    /** Writes how instances stand; answers those that still were in the hands of that node in that term. */
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
                    Connection connection = statement.getConnection();
                    statement.setArray(1, array(connection, "text", changes, c -> c.tenure.name));
                    statement.setArray(2, array(connection, "int4", changes, c -> c.tenure.instance));
                    statement.setArray(3, array(connection, "uuid", changes, c -> c.tenure.node));
                    statement.setArray(4, array(connection, "int8", changes, c -> c.tenure.term));
                    statement.setArray(5, array(connection, "text", changes, c -> word(c.status)));
                    statement.setArray(
                            6, array(connection, "int8", changes, c -> c.ranFor == null ? null : c.ranFor.toMillis()));
                    statement.setArray(7, array(connection, "int4", changes, Change::restarts));
                    statement.setArray(8, array(connection, "text", changes, Change::error));
                    statement.setArray(9, array(connection, "text", changes, Change::note));
                    statement.setArray(10, array(connection, "bool", changes, Change::released));
                    statement.setArray(11, array(connection, "bool", changes, Change::recovered));
                },
                (row, n) -> new Tenure(row.getString(1), row.getInt(2), row.getObject(3, UUID.class), row.getLong(4))));
    }

    private static java.sql.Array array(
            Connection connection, String type, List<Change> changes, Function<Change, @Nullable Object> part)
            throws SQLException {
        return connection.createArrayOf(type, changes.stream().map(part).toArray());
    }

    /**
     * Who runs what and who could, from one instant.
     *
     * @param holders nodes by leader role, of every daemon in the cluster
     * @param candidates active nodes that may run it, by leader role: another build may have fewer instances
     * @param atRest leader roles whose instance is done or has failed
     * @param paused names of daemons
     * @param own how this node's daemons of scope node stand, by name
     */
    public record Look(
            Map<String, UUID> holders,
            Map<String, Set<UUID>> candidates,
            Set<String> atRest,
            Set<String> paused,
            Map<String, DaemonStatus> own) {}

    /** Looks at all daemons with the eyes of that node. */
    public Look look(UUID node) {
        var look = new Look(new HashMap<>(), new HashMap<>(), new HashSet<>(), new HashSet<>(), new HashMap<>());
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
                SELECT 'paused', p.name, 0, NULL, NULL FROM ~.forge_daemon_pauses p
                """))
                .param("node", node)
                .query((row, n) -> {
                    seen(row, look);
                    return true;
                })
                .list();
        return look;
    }

    private static void seen(ResultSet row, Look look) throws SQLException {
        String name = row.getString(2);
        switch (row.getString(1)) {
            case "held" -> look.holders.put(name, row.getObject(4, UUID.class));
            case "candidate" -> {
                for (int instance = 0; instance < row.getInt(3); instance++) {
                    look.candidates
                            .computeIfAbsent(role(name, instance), r -> new HashSet<>())
                            .add(row.getObject(4, UUID.class));
                }
            }
            case "cluster" -> look.atRest.add(role(name, row.getInt(3)));
            case "node" -> look.own.put(name, status(row.getString(5)));
            default -> look.paused.add(name);
        }
    }

    /** Keeps every node from running it; false if there is no such daemon. */
    public boolean pause(String name) {
        jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_daemon_pauses (name)
                SELECT :name WHERE EXISTS (SELECT FROM ~.forge_daemons d WHERE d.name = :name)
                ON CONFLICT DO NOTHING
                """)).param("name", name).update();
        return jdbc.sql(schema.sql("SELECT EXISTS (SELECT FROM ~.forge_daemon_pauses WHERE name = ?)"))
                .param(name)
                .query(Boolean.class)
                .single();
    }

    /** Ends a pause, and what is done or has failed is pending again. */
    public void resume(String name) {
        jdbc.sql(schema.sql("""
                WITH resumed AS (DELETE FROM ~.forge_daemon_pauses WHERE name = :name)
                UPDATE ~.forge_daemons SET status = 'pending', restarts = 0
                WHERE name = :name AND status IN ('stopped', 'failed')
                """)).param("name", name).update();
    }

    /** All daemons, or one, by name. */
    public List<DaemonInfo> list(@Nullable String name) {
        var instances = new TreeMap<String, List<DaemonInfo.Instance>>();
        var scopes = new HashMap<String, DaemonScope>();
        jdbc.sql(schema.sql("""
                SELECT d.name, d.scope, d.instance, d.status, d.node_id, n.name, d.term, d.started_at, d.restarts,
                       d.last_error, d.note
                FROM ~.forge_daemons d LEFT JOIN ~.forge_nodes n ON n.id = d.node_id
                WHERE :name::text IS NULL OR d.name = :name ORDER BY d.name, d.instance
                """))
                .param("name", name)
                .query((row, n) -> {
                    scopes.merge(row.getString(1), scope(row.getString(2)), (a, b) -> b);
                    return instances
                            .computeIfAbsent(row.getString(1), d -> new ArrayList<>())
                            .add(instance(row));
                })
                .list();
        Set<String> paused = Set.copyOf(
                jdbc.sql(schema.sql("SELECT name FROM ~.forge_daemon_pauses WHERE :name::text IS NULL OR name = :name"))
                        .param("name", name)
                        .query((row, n) -> row.getString(1))
                        .list());
        paused.forEach(p -> instances.computeIfAbsent(p, d -> new ArrayList<>()));
        Map<String, List<String>> candidates = candidates();
        // Only those that every node runs lose their last row while they are paused.
        return instances.entrySet().stream()
                .map(daemon -> new DaemonInfo(
                        daemon.getKey(),
                        scopes.getOrDefault(daemon.getKey(), DaemonScope.NODE),
                        paused.contains(daemon.getKey()),
                        candidates.getOrDefault(daemon.getKey(), List.of()),
                        List.copyOf(daemon.getValue())))
                .toList();
    }

    private Map<String, List<String>> candidates() {
        var candidates = new HashMap<String, List<String>>();
        jdbc.sql(schema.sql("""
                SELECT substr(h.handler, 8), n.name FROM ~.forge_nodes n, unnest(n.handlers) AS h (handler)
                WHERE n.status = 'active' AND h.handler LIKE 'daemon:%' ORDER BY n.name
                """))
                .query((row, n) -> candidates
                        .computeIfAbsent(row.getString(1), d -> new ArrayList<>())
                        .add(row.getString(2)))
                .list();
        return candidates;
    }

    private static DaemonInfo.Instance instance(ResultSet row) throws SQLException {
        OffsetDateTime started = row.getObject(8, OffsetDateTime.class);
        return new DaemonInfo.Instance(
                row.getInt(3),
                status(row.getString(4)),
                row.getObject(5, UUID.class),
                row.getString(6),
                row.getLong(7),
                started == null ? null : started.toInstant(),
                row.getInt(9),
                row.getString(10),
                row.getString(11));
    }

    /** How many instances of a daemon have a status. */
    public record Count(String name, DaemonStatus status, long instances) {}

    /** All instances, counted. */
    public List<Count> counts() {
        return jdbc.sql(
                        schema.sql(
                                "SELECT name, status, count(*) FROM ~.forge_daemons GROUP BY name, status ORDER BY name, status"))
                .query((row, n) -> new Count(row.getString(1), status(row.getString(2)), row.getLong(3)))
                .list();
    }

    /** How many instances {@link #tidy} forgets at once. */
    public static final int TIDY_BATCH = 1_000;

    /**
     * Forgets daemons that no live node knows and nobody has paused, instances that none of them declares, and what dead
     * nodes have left behind. A node that does not say how many there are may know of any number. A thousand at most, and
     * none that somebody has locked; answers how many, of those that are left behind or those that are unknown.
     */
    public int tidy() {
        int leftBehind = jdbc.sql(schema.sql("""
                UPDATE ~.forge_daemons SET status = 'pending', node_id = NULL
                WHERE (name, instance) IN (
                    SELECT d.name, d.instance FROM ~.forge_daemons d
                    WHERE d.scope = 'cluster' AND d.node_id IS NOT NULL
                      AND NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = d.node_id AND n.status <> 'dead')
                    ORDER BY d.name, d.instance LIMIT :limit FOR UPDATE OF d SKIP LOCKED)
                """)).param("limit", TIDY_BATCH).update();
        int unknown = jdbc.sql(schema.sql("""
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
                """)).param("limit", TIDY_BATCH).update();
        return Math.max(leftBehind, unknown);
    }

    /** Tells every node that listens. */
    public void notifyOthers(String news) {
        jdbc.sql("SELECT pg_notify(?, ?)")
                .params(schema.channel(), news)
                .query((row, n) -> true)
                .single();
    }

    /** Ends what that node has, in the caller's transaction: it is leaving, or was declared dead. */
    static void endAll(JdbcClient jdbc, Schema schema, UUID node) {
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

    private static DaemonStatus status(String word) {
        return DaemonStatus.valueOf(word.toUpperCase(Locale.ROOT));
    }

    private static DaemonScope scope(String word) {
        return DaemonScope.valueOf(word.toUpperCase(Locale.ROOT));
    }

    private static String word(DaemonStatus status) {
        return status.name().toLowerCase(Locale.ROOT);
    }
}

package dev.forge.cluster.internal.store;

import dev.forge.cluster.NodeIdentity;
import dev.forge.cluster.NodeRole;
import dev.forge.cluster.NodeStatus;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import dev.forge.cluster.internal.store.JobStore.Recovered;
import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** The rows of {@code forge_nodes}, and all that hangs on them when a node dies. */
public final class NodeStore {

    private static final Logger log = GuardedLogger.of(NodeStore.class);

    private final Schema schema;
    private final CrashRule crash;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;
    private final TransactionTemplate nested;

    public NodeStore(Schema schema, DataSource control) {
        this(schema, control, new CrashRule(false, 10, 3));
    }

    /** @param crash what becomes of the jobs of a node that died */
    public NodeStore(Schema schema, DataSource control, CrashRule crash) {
        this.schema = schema;
        this.crash = crash;
        this.jdbc = JdbcClient.create(control);
        var transactions = new OwnTransactions(control);
        this.transaction = new TransactionTemplate(transactions);
        this.nested = new TransactionTemplate(
                transactions, new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_NESTED));
    }

    /**
     * A node as it introduces itself.
     *
     * @param livenessKey the key of the liveness lock that its session holds; null if it holds none
     * @param handlers names of jobs, crons, daemons and workflows that it knows
     * @param info free text by key, for operators
     */
    public record Introduction(
            UUID id,
            NodeIdentity identity,
            String hostname,
            Set<NodeRole> roles,
            List<String> capabilities,
            String version,
            @Nullable Integer livenessKey,
            List<String> handlers,
            Map<String, String> info) {}

    /** When others may call a node stale and dead, counted from its last heartbeat. */
    public record Deadlines(Duration stale, Duration dead) {}

    /** How busy a node is; shares lie between 0 and 1. */
    public record Load(
            int connections,
            int jobs,
            @Nullable Double cpu,
            @Nullable Double memory) {}

    /** What came of a registration. */
    public enum Registration {
        /** The node is in the table. */
        REGISTERED,
        /** A live node has the same {@code node.id}. */
        KEY_TAKEN
    }

    /** What came of a heartbeat. */
    public enum Beat {
        /** The others know that we live. */
        SEEN,
        /** So they do, and an operator wants this node to drain. */
        DRAIN_ORDERED,
        /** The row is gone or declared dead: whatever this id held is lost. */
        DECLARED_DEAD
    }

    /** Adds the node. A former holder of the same key that is past its own deadline gives way. */
    public Registration register(Introduction node, Deadlines deadlines) {
        jdbc.sql(schema.sql("""
                SELECT id, beats FROM ~.forge_nodes
                WHERE node_key = :key AND status <> 'dead' AND dead_at <= clock_timestamp()
                """))
                .param("key", node.identity().id())
                .query((row, n) -> Map.entry(row.getObject(1, UUID.class), row.getLong(2)))
                .list()
                .forEach(former -> declareDead(former.getKey(), former.getValue(), jobs -> {}));
        // Sorted, so that nodes that start together do not wait for each other.
        jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_job_names (name)
                SELECT DISTINCT name FROM unnest(:handlers) AS name ORDER BY name ON CONFLICT DO NOTHING
                """))
                .param("handlers", node.handlers().toArray(String[]::new))
                .update();
        int rows = jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_nodes
                    (id, node_key, name, hostname, roles, worker_capabilities, handlers, status, version, stale_at, dead_at,
                     info, liveness_key)
                VALUES (:id, :key, :name, :hostname, :roles, :capabilities, :handlers, 'joining', :version,
                        clock_timestamp() + :stale * interval '1 millisecond',
                        clock_timestamp() + :dead * interval '1 millisecond',
                        jsonb_object(:info_keys, :info_values), :liveness_key)
                ON CONFLICT DO NOTHING
                """))
                .param("id", node.id())
                .param("key", node.identity().id())
                .param("name", node.identity().name())
                .param("hostname", node.hostname())
                .param("roles", words(node.roles()))
                .param("capabilities", node.capabilities().toArray(String[]::new))
                .param("handlers", node.handlers().toArray(String[]::new))
                .param("version", node.version())
                .param("stale", deadlines.stale().toMillis())
                .param("dead", deadlines.dead().toMillis())
                .param("info_keys", node.info().keySet().toArray(String[]::new))
                .param("info_values", node.info().values().toArray(String[]::new))
                .param("liveness_key", node.livenessKey())
                .update();
        return rows == 1 ? Registration.REGISTERED : Registration.KEY_TAKEN;
    }

    /** Names the liveness lock of a node's new session; nodes that do without such locks go on doing so. */
    public void renewLiveness(UUID id, int livenessKey) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET liveness_key = ? WHERE id = ? AND liveness_key IS NOT NULL"))
                .params(livenessKey, id)
                .update();
    }

    /** See {@link #renewLiveness(UUID, int)}; unless a still later session has done so. */
    public void renewLiveness(UUID id, int former, int livenessKey) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET liveness_key = ? WHERE id = ? AND liveness_key = ?"))
                .params(livenessKey, id, former)
                .update();
    }

    /** Says that a node that has joined is at work. */
    public void activate(UUID id) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET status = 'active' WHERE id = ? AND status = 'joining'"))
                .param(id)
                .update();
    }

    /** Says that the node lives, and until when to believe so. */
    public Beat beat(UUID id, Load load, Deadlines deadlines) {
        return jdbc.sql(schema.sql("""
                UPDATE ~.forge_nodes
                SET beats = (beats + 1) % 1000000000000000000, last_heartbeat = clock_timestamp(),
                    stale_at = clock_timestamp() + :stale * interval '1 millisecond',
                    dead_at = clock_timestamp() + :dead * interval '1 millisecond',
                    status = CASE WHEN status IN ('stale', 'joining') THEN 'active' ELSE status END,
                    current_connections = :connections, current_jobs = :jobs, cpu_usage = :cpu, memory_usage = :memory
                WHERE id = :id AND status <> 'dead' RETURNING status
                """))
                .param("id", id)
                .param("stale", deadlines.stale().toMillis())
                .param("dead", deadlines.dead().toMillis())
                .param("connections", load.connections())
                .param("jobs", load.jobs())
                .param("cpu", load.cpu())
                .param("memory", load.memory())
                .query((row, n) -> status(row.getString(1)) == NodeStatus.DRAINING ? Beat.DRAIN_ORDERED : Beat.SEEN)
                .optional()
                .orElse(Beat.DECLARED_DEAD);
    }

    /** Orders a node to drain, or says that it does; false if there is no such live node. */
    public boolean drain(UUID id) {
        return jdbc.sql(schema.sql("""
                        UPDATE ~.forge_nodes SET status = 'draining'
                        WHERE id = ? AND status IN ('joining', 'active', 'stale', 'draining')
                        """)).param(id).update() == 1;
    }

    /** Takes the node out, with the locks it still has, at the end of an orderly stop. */
    public void remove(UUID id) {
        transaction.executeWithoutResult(status -> {
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                    WHERE owner_node = ? AND expires_at > clock_timestamp()
                    """)).param(id).update();
            DaemonStore.endAll(jdbc, schema, id);
            jdbc.sql(schema.sql("DELETE FROM ~.forge_nodes WHERE id = ?"))
                    .param(id)
                    .update();
        });
    }

    /**
     * The live node that has a key.
     *
     * @param deadAfter for how long it may be silent, as it declared itself
     */
    public record Holder(UUID id, long beats, Duration deadAfter) {}

    /** The live holder of that key. */
    public Optional<Holder> holderOf(String key) {
        return jdbc.sql(schema.sql("""
                SELECT n.id, n.beats, %s FROM ~.forge_nodes n WHERE n.node_key = ? AND n.status <> 'dead'
                """.formatted(declaredMillis("dead_at"))))
                .param(key)
                .query((row, n) ->
                        new Holder(row.getObject(1, UUID.class), row.getLong(2), Duration.ofMillis(row.getLong(3))))
                .optional();
    }

    /** Name and host of the live holder of that key, for people. */
    public Optional<String> describeHolderOf(String key) {
        return jdbc.sql(schema.sql("SELECT name, hostname FROM ~.forge_nodes WHERE node_key = ? AND status <> 'dead'"))
                .param(key)
                .query((row, n) -> "'%s' on host '%s'".formatted(row.getString(1), row.getString(2)))
                .optional();
    }

    /** What people call that node. */
    public Optional<String> nameOf(UUID node) {
        return jdbc.sql(schema.sql("SELECT name FROM ~.forge_nodes WHERE id = ?"))
                .param(node)
                .query(String.class)
                .optional();
    }

    /**
     * A node as an observer sees it.
     *
     * @param lockMissing it should hold its liveness lock but does not
     * @param staleAfter for how long it may be silent before it is stale, as it declared itself
     * @param sessionUnused how long ago the session that holds its liveness lock last had a statement; null if there is none,
     *     or if this database role may not see that
     */
    public record Sighting(
            UUID id,
            String name,
            NodeStatus status,
            long beats,
            boolean lockMissing,
            boolean candidate,
            boolean worker,
            Duration staleAfter,
            Duration deadAfter,
            @Nullable Duration sessionUnused) {}

    /**
     * Everything an observer needs, from one instant.
     *
     * @param serverStart a change means that every session was lost at once
     */
    public record Sightings(OffsetDateTime serverStart, List<Sighting> nodes) {}

    /** Looks at all nodes, the dead ones that are still in the table included. */
    public Sightings observe() {
        var start = new OffsetDateTime[1];
        List<Sighting> nodes = jdbc
                .sql(schema.sql("""
                WITH held AS MATERIALIZED (
                    SELECT l.objid, a.state_change FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
                    WHERE l.locktype = 'advisory' AND l.classid = :class_id AND l.objsubid = 2 AND l.granted
                      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
                SELECT pg_postmaster_start_time(), n.id, n.name, n.status, n.beats,
                       n.liveness_key IS NOT NULL AND NOT EXISTS (
                           SELECT FROM held WHERE held.objid = (n.liveness_key::bigint & 4294967295)::oid),
                       'scheduler' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') IN ('auto', 'leader'),
                       'worker' = ANY (n.roles) AND coalesce(n.info ->> 'mode', 'auto') <> 'observer',
                       %s,
                       %s,
                       (SELECT (extract(epoch FROM clock_timestamp() - max(held.state_change)) * 1000)::bigint
                        FROM held WHERE held.objid = (n.liveness_key::bigint & 4294967295)::oid)
                FROM (VALUES (1)) AS always LEFT JOIN ~.forge_nodes n ON true
                """.formatted(declaredMillis("stale_at"), declaredMillis("dead_at"))))
                .param("class_id", AdvisoryKeys.CLASS_ID)
                .query((row, n) -> {
                    start[0] = row.getObject(1, OffsetDateTime.class);
                    return row.getObject(2) == null ? null : sighting(row);
                })
                .list()
                .stream()
                .filter(Objects::nonNull)
                .toList();
        return new Sightings(start[0], nodes);
    }

    // Somebody may have edited it by hand: what is not finite, or too far away, means a day.
    private static String declaredMillis(String deadline) {
        return """
                CASE WHEN isfinite(n.last_heartbeat) AND n.%1$s < n.last_heartbeat + interval '1 day'
                    THEN (extract(epoch FROM greatest(n.%1$s, n.last_heartbeat) - n.last_heartbeat) * 1000)::bigint
                    ELSE 86400000 END""".formatted(deadline);
    }

    private static Sighting sighting(ResultSet row) throws SQLException {
        return new Sighting(
                row.getObject(2, UUID.class),
                row.getString(3),
                status(row.getString(4)),
                row.getLong(5),
                row.getBoolean(6),
                row.getBoolean(7),
                row.getBoolean(8),
                Duration.ofMillis(row.getLong(9)),
                Duration.ofMillis(row.getLong(10)),
                row.getObject(11) == null ? null : Duration.ofMillis(row.getLong(11)));
    }

    /** Calls a silent node stale, unless it has beaten since it was seen, or somebody has locked its row. */
    public boolean declareStale(UUID id, long beatsSeen) {
        return jdbc.sql(schema.sql("""
                        UPDATE ~.forge_nodes SET status = 'stale'
                        WHERE id = (SELECT id FROM ~.forge_nodes WHERE id = ? AND beats = ? AND status = 'active'
                                    FOR UPDATE SKIP LOCKED)
                        """)).params(id, beatsSeen).update() == 1;
    }

    /**
     * Declares a node dead, unless it has beaten since it was seen, and in the same transaction ends all that it held.
     * Of several observers one succeeds. Nobody waits for a row that somebody else has locked: that is another observer, the
     * node itself that beats, or a stranger, for whom all other nodes would have to wait.
     *
     * @param returned hears, once that is committed, of the jobs that were taken from it
     */
    public boolean declareDead(UUID id, long beatsSeen, Consumer<List<Recovered>> returned) {
        var jobs = new ArrayList<Recovered>();
        boolean dead = Boolean.TRUE.equals(transaction.execute(status -> {
            jdbc.sql("SET LOCAL lock_timeout = '1s'").update();
            jdbc.sql("SET LOCAL idle_in_transaction_session_timeout = '2s'").update();
            int declared = jdbc.sql(schema.sql("""
                    UPDATE ~.forge_nodes
                    SET status = 'dead', stale_at = least(stale_at, clock_timestamp()),
                        dead_at = least(dead_at, clock_timestamp())
                    WHERE id = (SELECT id FROM ~.forge_nodes WHERE id = ? AND beats = ? AND status <> 'dead'
                                FOR UPDATE SKIP LOCKED)
                    """)).params(id, beatsSeen).update();
            if (declared == 0) {
                return false;
            }
            // Rows that somebody else is working on are left to the elections and sweeps that would find them anyway,
            // and to
            // LockStore, which knows that the locks of a dead node are free.
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_leader_leases SET lease_until = clock_timestamp(), node_id = NULL
                    WHERE role = ANY (ARRAY(
                        SELECT role FROM ~.forge_leader_leases WHERE node_id = ? ORDER BY role FOR UPDATE SKIP LOCKED))
                    """)).param(id).update();
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_leaders SET node_id = NULL
                    WHERE role = ANY (ARRAY(
                        SELECT role FROM ~.forge_leaders WHERE node_id = ? ORDER BY role FOR UPDATE SKIP LOCKED))
                    """)).param(id).update();
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                    WHERE lock_name = ANY (ARRAY(
                        SELECT lock_name FROM ~.forge_locks WHERE owner_node = ? AND expires_at > clock_timestamp()
                        ORDER BY lock_name FOR UPDATE SKIP LOCKED))
                    """)).param(id).update();
            jobs.addAll(returnJobs(id));
            DaemonStore.endAll(jdbc, schema, id);
            return true;
        }));
        if (dead && !jobs.isEmpty()) {
            returned.accept(jobs);
        }
        return dead;
    }

    /** Returns the jobs of a dead node; none if the database refuses one of them, so that the sweeper has to find them. */
    private List<Recovered> returnJobs(UUID id) {
        try {
            return Objects.requireNonNull(nested.execute(
                    status -> jdbc.sql(schema.sql("""
                            UPDATE ~.forge_jobs j SET %s
                            WHERE id = ANY (ARRAY(
                                SELECT id FROM ~.forge_jobs WHERE worker_id = ? AND status IN ('claimed', 'running')
                                ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED))
                            RETURNING j.id, j.name, %s, j.recoveries, j.status
                            """.formatted(JobStore.recovery(crash), JobStore.silentMillis("j"))))
                            .param(id)
                            .query((row, n) -> JobStore.recovered(row, id))
                            .list()));
        } catch (DataAccessException e) {
            if (TransientFailure.caused(e)) {
                throw e;
            }
            log.debug("the jobs of node {} are left to the sweeper", id, e);
            return List.of();
        }
    }

    /**
     * Forgets nodes that died longer ago than that, up to that many. Locks of theirs that somebody had locked when they were
     * declared dead are ended first: without the row of its owner a lock would count as held again.
     */
    public int purgeDead(Duration retention, int limit) {
        return Objects.requireNonNull(transaction.execute(status -> {
            UUID[] dead = jdbc.sql(schema.sql("""
                    SELECT id FROM ~.forge_nodes
                    WHERE status = 'dead' AND dead_at < clock_timestamp() - :retention * interval '1 millisecond'
                    LIMIT :limit FOR UPDATE SKIP LOCKED
                    """))
                    .param("retention", retention.toMillis())
                    .param("limit", limit)
                    .query((row, n) -> row.getObject(1, UUID.class))
                    .list()
                    .toArray(UUID[]::new);
            if (dead.length == 0) {
                return 0;
            }
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                    WHERE owner_node = ANY (:dead) AND expires_at > clock_timestamp()
                    """)).param("dead", dead).update();
            return jdbc.sql(schema.sql("DELETE FROM ~.forge_nodes WHERE id = ANY (:dead)"))
                    .param("dead", dead)
                    .update();
        }));
    }

    /** A node with all that operators want to know. */
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
            int connections,
            int jobs,
            @Nullable Double cpu,
            @Nullable Double memory) {}

    /** All nodes in the table. */
    public List<Row> all() {
        return jdbc.sql(schema.sql("""
                SELECT id, node_key, name, hostname, roles, worker_capabilities, status, version, started_at,
                       last_heartbeat, current_connections, current_jobs, cpu_usage, memory_usage,
                       coalesce(info ->> 'mode', 'auto')
                FROM ~.forge_nodes ORDER BY started_at, id
                """))
                .query((row, n) -> new Row(
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
                        row.getInt(11),
                        row.getInt(12),
                        row.getObject(13, Double.class),
                        row.getObject(14, Double.class)))
                .list();
    }

    private static List<String> texts(Array array) throws SQLException {
        return Arrays.asList((String[]) array.getArray());
    }

    private static NodeStatus status(String word) {
        return NodeStatus.valueOf(word.toUpperCase(Locale.ROOT));
    }

    private static String[] words(Set<NodeRole> roles) {
        return roles.stream()
                .sorted()
                .map(role -> role.name().toLowerCase(Locale.ROOT))
                .toArray(String[]::new);
    }
}

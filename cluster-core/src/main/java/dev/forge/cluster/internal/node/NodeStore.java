// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.observation.ObservationStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Registers, updates, declares dead and deletes the rows of {@code forge_nodes}. */
public final class NodeStore {

    private static final Logger log = GuardedLogger.of(NodeStore.class);

    private final Schema schema;
    private final DataSource source;
    private final LeaderStore leaders;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;
    private final TransactionTemplate nested;

    public NodeStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.source = control;
        this.leaders = new LeaderStore(schema, control);
        this.jdbc = JdbcClient.create(control);
        var transactions = new OwnTransactions(control);
        this.transaction = new TransactionTemplate(transactions);
        this.nested = new TransactionTemplate(
                transactions, new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_NESTED));
    }

    /**
     * Returns the data source on which nodes are declared dead and deleted. Components release rows of such nodes on it, in the same
     * transaction.
     */
    public DataSource source() {
        return source;
    }

    /**
     * A node that joins.
     *
     * @param livenessKey the key of the liveness lock that its session holds; null if it holds none
     * @param handlers names of the jobs, crons, daemons and workflows that it has handlers for
     * @param executors what a worker publishes about its executors; empty if it is none
     * @param info free text by key, for operators
     */
    public record NewNode(
            UUID id,
            NodeIdentity identity,
            String hostname,
            Set<NodeRole> roles,
            List<String> capabilities,
            String version,
            @Nullable Integer livenessKey,
            List<String> handlers,
            List<String> executors,
            Map<String, String> info) {}

    /** How long after its last heartbeat a node is stale, and dead. */
    public record Deadlines(Duration stale, Duration dead) {}

    /** How busy a node is; shares lie between 0 and 1. */
    public record Load(
            int connections,
            int jobs,
            @Nullable Double cpu,
            @Nullable Double memory) {}

    /** The outcome of a heartbeat. */
    public enum HeartbeatResult {
        /** The heartbeat is recorded. */
        RECORDED,
        /** The heartbeat is recorded, and an operator has requested that the node drain. */
        DRAIN_REQUESTED,
        /** The row is gone or declared dead. All that this id held belongs to other nodes. */
        DECLARED_DEAD
    }

    /** Returns the nodes with a key that are not dead although their own deadline has passed. */
    List<SeenNode> overdueHoldersOf(String key) {
        return jdbc.sql(schema.sql("""
                SELECT id, beats FROM ~.forge_nodes
                WHERE node_key = ? AND status <> 'dead' AND dead_at <= clock_timestamp()
                """))
                .param(key)
                .query((row, n) -> new SeenNode(row.getObject(1, UUID.class), row.getLong(2)))
                .list();
    }

    /** A node and its heartbeat counter when it was last seen. */
    public record SeenNode(UUID id, long beats) {}

    /** Adds a node; returns false if a live node has the same key. */
    public boolean register(NewNode node, Deadlines deadlines) {
        // Sorted, so that nodes that start together do not deadlock.
        jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_job_names (name)
                SELECT DISTINCT name FROM unnest(:handlers) AS name ORDER BY name ON CONFLICT DO NOTHING
                """))
                .param("handlers", node.handlers().toArray(String[]::new))
                .update();
        int rows = jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_nodes
                    (id, node_key, name, hostname, roles, worker_capabilities, handlers, executors, status, version, stale_at,
                     dead_at, info, liveness_key)
                VALUES (:id, :key, :name, :hostname, :roles, :capabilities, :handlers, :executors, 'joining', :version,
                        clock_timestamp() + :stale * interval '1 millisecond',
                        clock_timestamp() + :dead * interval '1 millisecond',
                        jsonb_object(:info_keys, :info_values), :liveness_key)
                ON CONFLICT DO NOTHING
                """))
                .param("id", node.id())
                .param("key", node.identity().id())
                .param("name", node.identity().name())
                .param("hostname", node.hostname())
                .param(
                        "roles",
                        node.roles().stream().sorted().map(EnumText::hyphenated).toArray(String[]::new))
                .param("capabilities", node.capabilities().toArray(String[]::new))
                .param("handlers", node.handlers().toArray(String[]::new))
                .param("executors", node.executors().toArray(String[]::new))
                .param("version", node.version())
                .param("stale", deadlines.stale().toMillis())
                .param("dead", deadlines.dead().toMillis())
                .param("info_keys", node.info().keySet().toArray(String[]::new))
                .param("info_values", node.info().values().toArray(String[]::new))
                .param("liveness_key", node.livenessKey())
                .update();
        return rows == 1;
    }

    /** Records the liveness lock of a node's new session. Does nothing for a node without a liveness lock. */
    public void renewLiveness(UUID id, int livenessKey) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET liveness_key = ? WHERE id = ? AND liveness_key IS NOT NULL"))
                .params(livenessKey, id)
                .update();
    }

    /** Replaces one liveness key by another. Does nothing if a later session has recorded its own. */
    public void renewLiveness(UUID id, int former, int livenessKey) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET liveness_key = ? WHERE id = ? AND liveness_key = ?"))
                .params(livenessKey, id, former)
                .update();
    }

    /** Marks a node that has joined as active. */
    public void activate(UUID id) {
        jdbc.sql(schema.sql("UPDATE ~.forge_nodes SET status = 'active' WHERE id = ? AND status = 'joining'"))
                .param(id)
                .update();
    }

    /** Records a heartbeat, with the deadlines until which other nodes must not declare this one stale or dead. */
    public HeartbeatResult beat(UUID id, Load load, Deadlines deadlines) {
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
                .query((row, n) -> EnumText.parse(NodeStatus.class, row.getString(1)) == NodeStatus.DRAINING
                        ? HeartbeatResult.DRAIN_REQUESTED
                        : HeartbeatResult.RECORDED)
                .optional()
                .orElse(HeartbeatResult.DECLARED_DEAD);
    }

    /** Requests that a node drains, for an operator; returns false if the node is not alive. */
    public boolean requestDrain(UUID id, Audit audit) {
        return audit.on(source)
                        .record(
                                new Operation("node.drain", id, nameOf(id).orElse(null)),
                                () -> jdbc.sql(schema.sql("""
                                UPDATE ~.forge_nodes SET status = 'draining' WHERE id = ? AND status IN ('joining', 'active', 'stale')
                                """)).param(id).update() == 1)
                // It may drain already.
                || drain(id);
    }

    /** Marks a node as draining; returns false if it is not alive. */
    public boolean drain(UUID id) {
        return jdbc.sql(schema.sql("""
                        UPDATE ~.forge_nodes
                        SET status = 'draining', draining_since = coalesce(draining_since, clock_timestamp())
                        WHERE id = ? AND status IN ('joining', 'active', 'stale', 'draining')
                        """)).param(id).update() == 1;
    }

    /**
     * Deletes the row of a node that leaves.
     *
     * @param release releases, in the same transaction, what the node still holds
     */
    public void remove(UUID id, Consumer<UUID> release) {
        transaction.executeWithoutResult(status -> {
            release.accept(id);
            deleteRows(List.of(id));
        });
    }

    /**
     * The live node that has a key.
     *
     * @param deadAfter how long it may be silent, as it declared itself
     */
    public record KeyHolder(UUID id, long beats, Duration deadAfter) {}

    /** Returns the live node that has a key. */
    public Optional<KeyHolder> holderOf(String key) {
        return jdbc.sql(schema.sql("""
                SELECT n.id, n.beats, %s FROM ~.forge_nodes n WHERE n.node_key = ? AND n.status <> 'dead'
                """.formatted(ObservationStore.declaredMillis("dead_at"))))
                .param(key)
                .query((row, n) ->
                        new KeyHolder(row.getObject(1, UUID.class), row.getLong(2), Duration.ofMillis(row.getLong(3))))
                .optional();
    }

    /** Returns name and host of the live node that has a key, for a message. */
    public Optional<String> describeHolderOf(String key) {
        return jdbc.sql(schema.sql("SELECT name, hostname FROM ~.forge_nodes WHERE node_key = ? AND status <> 'dead'"))
                .param(key)
                .query((row, n) -> "'%s' on host '%s'"
                        .formatted(Names.printable(row.getString(1)), Names.printable(row.getString(2))))
                .optional();
    }

    /** Returns the name of a node. */
    public Optional<String> nameOf(UUID node) {
        return jdbc.sql(schema.sql("SELECT name FROM ~.forge_nodes WHERE id = ?"))
                .param(node)
                .query(String.class)
                .optional();
    }

    /** Declares a silent node stale, unless it has sent a heartbeat since, or another session has locked its row. */
    public boolean declareStale(UUID id, long beatsSeen) {
        return jdbc.sql(schema.sql("""
                        UPDATE ~.forge_nodes SET status = 'stale'
                        WHERE id = (SELECT id FROM ~.forge_nodes WHERE id = ? AND beats = ? AND status = 'active'
                                    FOR UPDATE SKIP LOCKED)
                        """)).params(id, beatsSeen).update() == 1;
    }

    /** Runs work in one transaction that does not keep rows locked for long if this node stops in the middle. */
    public <T> T inShortTransaction(Supplier<T> work) {
        return Objects.requireNonNull(transaction.execute(status -> {
            jdbc.sql("SET LOCAL lock_timeout = '1s'").update();
            jdbc.sql("SET LOCAL idle_in_transaction_session_timeout = '2s'").update();
            return work.get();
        }));
    }

    /**
     * Declares a node dead and ends its leaderships in the caller's transaction, unless it has sent a heartbeat since. Of several observers one succeeds. A
     * row that another session has locked is not waited for: the session is another observer, the node itself, or a foreign one
     * that would hold up the detection of all dead nodes.
     */
    public boolean declareDead(SeenNode node) {
        boolean declared = jdbc.sql(schema.sql("""
                        UPDATE ~.forge_nodes
                        SET status = 'dead', stale_at = least(stale_at, clock_timestamp()),
                            dead_at = least(dead_at, clock_timestamp())
                        WHERE id = (SELECT id FROM ~.forge_nodes WHERE id = ? AND beats = ? AND status <> 'dead'
                                    FOR UPDATE SKIP LOCKED)
                        """)).params(node.id, node.beats).update() == 1;
        if (declared) {
            leaders.releaseHeldBy(node.id);
        }
        return declared;
    }

    /** Returns a node as its row shows it; empty if there is no such row. */
    Optional<SeenNode> seen(UUID id) {
        return jdbc.sql(schema.sql("SELECT beats FROM ~.forge_nodes WHERE id = ?"))
                .params(id)
                .query((row, n) -> new SeenNode(id, row.getLong(1)))
                .optional();
    }

    /**
     * Releases the rows of one component inside of the transaction that declares a node dead. If the database rejects the
     * release, because of a damaged row for example, the node is declared dead all the same, and sweeps release the rows later.
     *
     * @return the component's action for the time after the commit
     */
    Runnable releaseApart(UUID id, Supplier<Runnable> release) {
        try {
            return Objects.requireNonNull(nested.execute(status -> {
                Runnable afterwards = release.get();
                // What the application defers would fail at the commit, and with it the declaration.
                jdbc.sql("SET CONSTRAINTS ALL IMMEDIATE").update();
                return afterwards;
            }));
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == Kind.CONNECTION_LOST) {
                throw e;
            }
            log.debug("Node {}: could not release all of its rows; sweeps release them later", id, e);
            return () -> {};
        }
    }

    /**
     * Deletes up to that many rows of nodes that died longer ago than that.
     *
     * @param forget releases, in the same transaction, rows of these nodes that were locked when the nodes were declared dead
     */
    public int purgeDead(Duration retention, int limit, Consumer<List<UUID>> forget) {
        return Objects.requireNonNull(transaction.execute(status -> {
            List<UUID> dead = jdbc.sql(schema.sql("""
                    SELECT id FROM ~.forge_nodes
                    WHERE status = 'dead' AND dead_at < clock_timestamp() - :retention * interval '1 millisecond'
                    LIMIT :limit FOR UPDATE SKIP LOCKED
                    """))
                    .param("retention", retention.toMillis())
                    .param("limit", limit)
                    .query((row, n) -> row.getObject(1, UUID.class))
                    .list();
            if (dead.isEmpty()) {
                return 0;
            }
            forget.accept(dead);
            return deleteRows(dead);
        }));
    }

    /** Deletes rows and keeps their names. */
    private int deleteRows(List<UUID> ids) {
        return jdbc.sql(schema.sql("""
                        WITH gone AS (DELETE FROM ~.forge_nodes WHERE id = ANY (:ids::uuid[]) RETURNING id, name)
                        INSERT INTO ~.forge_former_nodes (id, name) SELECT id, left(name, 500) FROM gone
                        ON CONFLICT (id) DO UPDATE SET left_at = clock_timestamp()
                        """)).param("ids", ids.toArray(UUID[]::new)).update();
    }

    /** Deletes names of nodes that have left long ago, up to the limit. */
    public int forgetFormer(Duration retention, int limit) {
        return jdbc.sql(schema.sql("""
                        DELETE FROM ~.forge_former_nodes WHERE id = ANY (ARRAY(
                            SELECT id FROM ~.forge_former_nodes WHERE left_at < now() - :retention * interval '1 millisecond'
                            ORDER BY left_at LIMIT (SELECT :limit) FOR UPDATE SKIP LOCKED))
                        """))
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .update();
    }
}

package dev.forge.cluster.internal.store;

import dev.forge.cluster.NodeIdentity;
import dev.forge.cluster.NodeRole;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The rows of {@code forge_nodes}. */
public final class NodeStore {

    private final Schema schema;
    private final JdbcClient jdbc;

    public NodeStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
    }

    /**
     * A node as it introduces itself.
     *
     * @param info free text by key, for operators
     */
    public record Introduction(
            UUID id,
            NodeIdentity identity,
            String hostname,
            Set<NodeRole> roles,
            List<String> capabilities,
            String version,
            Map<String, String> info) {}

    /** When others may call a node stale and dead, counted from its last heartbeat by the database's clock. */
    public record Deadlines(Duration stale, Duration dead) {}

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
        /** The row is gone or declared dead: whatever this id held is lost. */
        DECLARED_DEAD
    }

    /** Adds the node. A former holder of the same key that is past its own deadline gives way. */
    public Registration register(Introduction node, Deadlines deadlines) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_nodes SET status = 'dead'
                WHERE node_key = :key AND status <> 'dead' AND dead_at <= clock_timestamp()
                """)).param("key", node.identity().id()).update();
        int rows = jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_nodes
                    (id, node_key, name, hostname, roles, worker_capabilities, status, version, stale_at, dead_at, info)
                VALUES (:id, :key, :name, :hostname, :roles, :capabilities, 'active', :version,
                        clock_timestamp() + :stale * interval '1 millisecond',
                        clock_timestamp() + :dead * interval '1 millisecond', jsonb_object(:info_keys, :info_values))
                ON CONFLICT DO NOTHING
                """))
                .param("id", node.id())
                .param("key", node.identity().id())
                .param("name", node.identity().name())
                .param("hostname", node.hostname())
                .param("roles", names(node.roles()))
                .param("capabilities", node.capabilities().toArray(String[]::new))
                .param("version", node.version())
                .param("stale", deadlines.stale().toMillis())
                .param("dead", deadlines.dead().toMillis())
                .param("info_keys", node.info().keySet().toArray(String[]::new))
                .param("info_values", node.info().values().toArray(String[]::new))
                .update();
        return rows == 1 ? Registration.REGISTERED : Registration.KEY_TAKEN;
    }

    /** Says that the node lives, and until when to believe so. */
    public Beat beat(UUID id, Deadlines deadlines) {
        int rows = jdbc.sql(schema.sql("""
                UPDATE ~.forge_nodes
                SET beats = beats + 1, last_heartbeat = clock_timestamp(),
                    stale_at = clock_timestamp() + :stale * interval '1 millisecond',
                    dead_at = clock_timestamp() + :dead * interval '1 millisecond'
                WHERE id = :id AND status <> 'dead'
                """))
                .param("id", id)
                .param("stale", deadlines.stale().toMillis())
                .param("dead", deadlines.dead().toMillis())
                .update();
        return rows == 1 ? Beat.SEEN : Beat.DECLARED_DEAD;
    }

    /** Takes the node out, at the end of an orderly stop. */
    public void remove(UUID id) {
        jdbc.sql(schema.sql("DELETE FROM ~.forge_nodes WHERE id = :id"))
                .param("id", id)
                .update();
    }

    private static String[] names(Set<NodeRole> roles) {
        return roles.stream().map(role -> role.name().toLowerCase(Locale.ROOT)).toArray(String[]::new);
    }
}

package dev.forge.cluster.internal.store;

import java.util.Objects;
import java.util.Optional;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** The rows of {@code forge_startup_actions}: which actions were completed, in which version, by whom. */
public final class StartupActionStore {

    /** How the names of the locks begin that decide which node runs an action. */
    public static final String LOCK_PREFIX = "once:";

    private final Schema schema;
    private final JdbcClient jdbc;
    private final TransactionTemplate apart;

    public StartupActionStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
        // In a transaction of the caller's, Spring would keep our connection until that one ends.
        this.apart = new TransactionTemplate(new OwnTransactions(control));
        this.apart.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
    }

    private <T> T apart(Supplier<T> work) {
        return Objects.requireNonNull(apart.execute(status -> work.get()));
    }

    /** Whether some node has completed that version of the action. */
    public boolean isCompleted(String name, String version) {
        return apart(() -> jdbc.sql(schema.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_startup_actions WHERE name = ? AND version = ?)
                """))
                .params(name, version)
                .query(Boolean.class)
                .single());
    }

    /**
     * Records that the holder of a lock has completed that version of the action. May be repeated if the answer got lost.
     * The token alone decides: completion counts after the lease has ended, too, as long as no other node has taken the lock.
     *
     * @param nodeName the node that completed it
     * @return false if another node has taken the lock since: nothing is recorded then
     */
    public boolean complete(String name, String version, String nodeName, String lock, long token) {
        return apart(() -> jdbc.sql(schema.sql("""
                        INSERT INTO ~.forge_startup_actions (name, version, node_id, node_name, token, started_at)
                        SELECT :name, :version, l.owner_node, :node_name, l.token, l.locked_at FROM ~.forge_locks l
                        WHERE l.lock_name = :lock AND l.token = :token
                        FOR SHARE
                        ON CONFLICT (name, version) DO NOTHING
                        """))
                                .param("name", name)
                                .param("version", version)
                                .param("node_name", nodeName)
                                .param("lock", lock)
                                .param("token", token)
                                .update()
                        == 1
                || jdbc.sql(schema.sql("""
                                SELECT EXISTS (
                                    SELECT FROM ~.forge_startup_actions WHERE name = ? AND version = ? AND token = ?)
                                """))
                        .params(name, version, token)
                        .query(Boolean.class)
                        .single());
    }

    /** The node that holds a lock, by its name, or by its id if it has not joined the cluster yet. */
    public Optional<String> holder(String lock) {
        return apart(
                () -> jdbc.sql(schema.sql("""
                SELECT coalesce(n.name, l.owner_node::text) FROM ~.forge_locks l
                LEFT JOIN ~.forge_nodes n ON n.id = l.owner_node
                WHERE l.lock_name = ? AND l.expires_at > clock_timestamp()
                """)).param(lock).query(String.class).optional());
    }
}

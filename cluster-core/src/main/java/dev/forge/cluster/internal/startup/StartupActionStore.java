// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.startup;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.lock.DefaultClusterLocks;
import dev.forge.cluster.internal.runtime.Names;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionTemplate;

/** Records in {@code forge_startup_actions} which actions were completed, in which version, and by which node. */
public final class StartupActionStore {

    /** The prefix of the names of the locks that decide which node runs an action. */
    static final String LOCK_PREFIX = DefaultClusterLocks.RESERVED_PREFIX;

    /**
     * An SQL condition on locks {@code l} whose rows must stay: those of actions, for a year, unless the last holder has completed
     * the action. A holder that was cut off needs the row to record completion.
     */
    public static final String KEPT_LOCKS = """
            starts_with(l.lock_name, '%1$s') AND l.expires_at > clock_timestamp() - interval '1 year'
                AND NOT EXISTS (SELECT FROM ~.forge_startup_actions a
                                WHERE a.name = substr(l.lock_name, length('%1$s') + 1) AND a.token = l.token)""".formatted(LOCK_PREFIX);

    private final Schema schema;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;

    public StartupActionStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
        this.transaction = OwnTransactions.separate(control);
    }

    private <T> T separately(Supplier<T> work) {
        return Objects.requireNonNull(transaction.execute(status -> work.get()));
    }

    /** Returns whether a node has completed that version of the action. */
    public boolean isCompleted(String name, String version) {
        return separately(() -> jdbc.sql(schema.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_startup_actions WHERE name = ? AND version = ?)
                """))
                .params(name, version)
                .query(Boolean.class)
                .single());
    }

    /**
     * Records that the holder of a lock has completed that version of the action. May be repeated if the response was lost. Only
     * the token counts: completion is also recorded after the lease has ended, as long as no other node has taken the lock.
     *
     * @param nodeName the node that completed it
     * @return false if another node has taken the lock since; nothing is recorded then
     */
    public boolean complete(String name, String version, String nodeName, String lock, long token) {
        return separately(() -> jdbc.sql(schema.sql("""
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

    /** Returns the name of the node that holds a lock, or its id if it has not joined the cluster yet. */
    public Optional<String> holder(String lock) {
        return separately(() -> jdbc.sql(schema.sql("""
                SELECT coalesce(n.name, l.owner_node::text) FROM ~.forge_locks l
                LEFT JOIN ~.forge_nodes n ON n.id = l.owner_node
                WHERE l.lock_name = ? AND l.expires_at > clock_timestamp()
                """))
                .param(lock)
                .query((row, n) -> Names.printable(row.getString(1)))
                .optional());
    }
}

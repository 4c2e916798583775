// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Takes, extends and releases the locks in {@code forge_locks}. The token of a lock identifies its holder, until the lock expires
 * or the holder's node is declared dead.
 */
public final class LockStore {

    /**
     * Whether the lock in row {@code l} is held. Checks the status of its node, too: the declaration of a node's death releases
     * its locks, except for rows that another session has locked at that moment.
     */
    private static final String HELD = """
            l.expires_at > clock_timestamp()
                AND NOT EXISTS (SELECT FROM ~.forge_nodes d WHERE d.id = l.owner_node AND d.status = 'dead')""";

    private final Schema schema;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;

    public LockStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
        this.transaction = OwnTransactions.separate(control);
    }

    private <T> T separately(Supplier<T> work) {
        return Objects.requireNonNull(transaction.execute(status -> work.get()));
    }

    /**
     * Takes a free or expired lock; returns its token, which is larger than any before, or empty. A lock that is held is only
     * read. A node that was declared dead gets no lock before it has joined again: any other node could take the lock at once.
     */
    public OptionalLong take(String name, UUID owner, Duration lease) {
        return separately(() -> jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_locks AS l (lock_name, owner_node, expires_at)
                SELECT :name, :owner, clock_timestamp() + :lease * interval '1 millisecond'
                WHERE NOT EXISTS (SELECT FROM ~.forge_locks l WHERE l.lock_name = :name AND %1$s)
                  AND NOT EXISTS (SELECT FROM ~.forge_nodes d WHERE d.id = :owner AND d.status = 'dead')
                ON CONFLICT (lock_name) DO UPDATE
                SET owner_node = excluded.owner_node, token = DEFAULT, locked_at = clock_timestamp(),
                    expires_at = excluded.expires_at
                WHERE NOT (%1$s)
                RETURNING token
                """.formatted(HELD)))
                .param("name", name)
                .param("owner", owner)
                .param("lease", lease.toMillis())
                .query((row, n) -> OptionalLong.of(row.getLong(1)))
                .optional()
                .orElseGet(OptionalLong::empty));
    }

    /** Extends a lock from now on; returns false if it has expired or was taken by another holder. */
    public boolean extend(String name, long token, Duration lease) {
        return separately(() -> jdbc.sql(schema.sql("""
                        UPDATE ~.forge_locks l SET expires_at = clock_timestamp() + :lease * interval '1 millisecond'
                        WHERE lock_name = :name AND token = :token AND %s
                        """.formatted(HELD)))
                        .param("name", name)
                        .param("token", token)
                        .param("lease", lease.toMillis())
                        .update())
                == 1;
    }

    /**
     * Extends a lock from now on, even if it has expired, unless another holder has taken it since. For holders that continue
     * their work anyway.
     */
    public boolean renew(String name, long token, Duration lease) {
        return separately(() -> jdbc.sql(schema.sql("""
                        UPDATE ~.forge_locks l SET expires_at = clock_timestamp() + :lease * interval '1 millisecond'
                        WHERE lock_name = :name AND token = :token
                          AND NOT EXISTS (SELECT FROM ~.forge_nodes d WHERE d.id = l.owner_node AND d.status = 'dead')
                        """))
                        .param("name", name)
                        .param("token", token)
                        .param("lease", lease.toMillis())
                        .update())
                == 1;
    }

    /** Releases a lock; returns whether it was held. The row stays, so that the next token is drawn under its row lock. */
    public boolean release(String name, long token) {
        return separately(() -> jdbc.sql(schema.sql("""
                        UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                        WHERE lock_name = ? AND token = ? AND expires_at > clock_timestamp()
                        """)).params(name, token).update()) == 1;
    }

    /**
     * Releases the locks of a dead node, in the caller's transaction. Skips rows that other sessions have locked: {@link #take}
     * treats the locks of a dead node as free.
     */
    public void releaseHeldByDead(UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                WHERE lock_name = ANY (ARRAY(
                    SELECT lock_name FROM ~.forge_locks WHERE owner_node = ? AND expires_at > statement_timestamp()
                    ORDER BY lock_name FOR UPDATE SKIP LOCKED))
                """)).param(node).update();
    }

    /**
     * Releases locks of dead nodes whose rows were locked when these nodes were declared dead, in the caller's transaction.
     * Without the row of its owner such a lock would count as held again.
     */
    public void forgetDead(List<UUID> nodes) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                WHERE owner_node = ANY (?) AND expires_at > statement_timestamp()
                """)).param(nodes.toArray(UUID[]::new)).update();
    }

    /** Releases the locks of a node that leaves, in the caller's transaction. */
    public void releaseHeldByLeaving(UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                WHERE owner_node = ? AND expires_at > statement_timestamp()
                """)).param(node).update();
    }

    /**
     * Deletes up to that many rows of locks that expired longer ago than that.
     *
     * @param kept an SQL condition on locks {@code l} that stay; empty if none do
     * @return how many rows were deleted
     */
    public int purge(Duration retention, String kept, int limit) {
        return jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_locks WHERE lock_name = ANY (ARRAY(
                    SELECT l.lock_name FROM ~.forge_locks l
                    WHERE l.expires_at < statement_timestamp() - :retention * interval '1 millisecond' AND NOT (%s)
                    ORDER BY l.expires_at LIMIT :limit FOR UPDATE OF l SKIP LOCKED))
                """.formatted(kept.isEmpty() ? "false" : kept)))
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .update();
    }

    /** A lock that is held. */
    public record Held(String name, UUID owner, long token, OffsetDateTime lockedAt, OffsetDateTime expiresAt) {}

    /** Returns up to that many locks that are held, those that were taken last first. */
    public List<Held> held(int limit) {
        return jdbc.sql(schema.sql("""
                SELECT lock_name, owner_node, token, locked_at, expires_at FROM ~.forge_locks l
                WHERE l.expires_at > statement_timestamp() AND %s ORDER BY locked_at DESC, lock_name LIMIT ?
                """.formatted(HELD)))
                .param(limit)
                .query((row, n) -> new Held(
                        row.getString(1),
                        row.getObject(2, UUID.class),
                        row.getLong(3),
                        row.getObject(4, OffsetDateTime.class),
                        row.getObject(5, OffsetDateTime.class)))
                .list();
    }
}

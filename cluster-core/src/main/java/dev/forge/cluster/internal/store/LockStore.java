package dev.forge.cluster.internal.store;

import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_locks}. A lock is held by whoever knows its token, until it expires or its node is declared dead.
 */
public final class LockStore {

    /**
     * Whether the lock in row {@code l} is held. Asks for the death of its node, too: whoever declares a node dead ends its
     * locks, except for rows that another session has locked at that moment.
     */
    private static final String HELD = """
            l.expires_at > clock_timestamp()
                AND NOT EXISTS (SELECT FROM ~.forge_nodes d WHERE d.id = l.owner_node AND d.status = 'dead')""";

    private final Schema schema;
    private final JdbcClient jdbc;
    private final TransactionTemplate apart;

    public LockStore(Schema schema, DataSource control) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(control);
        // In a transaction of the caller's, Spring would keep our connection until that one ends.
        this.apart = new TransactionTemplate(new OwnTransactions(control));
        this.apart.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
    }

    private <T> T apart(Supplier<T> work) {
        return Objects.requireNonNull(apart.execute(status -> work.get()));
    }

    /**
     * Takes a free or expired lock; answers the token, larger than any before. A lock that is held is only read. A node that was
     * declared dead gets none before it has joined anew: any other node could take it from it at once.
     */
    public OptionalLong take(String name, UUID owner, Duration lease) {
        return apart(() -> jdbc.sql(schema.sql("""
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

    /** Whether the lock with that token is held until then, counted from now. An expired one cannot be extended. */
    public boolean extend(String name, long token, Duration lease) {
        return apart(() -> jdbc.sql(schema.sql("""
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
     * Whether the lock with that token is held until then, counted from now. Unlike {@link #extend}, renews an expired lock,
     * too, if nobody has taken it since: for holders that go on with their work anyway.
     */
    public boolean renew(String name, long token, Duration lease) {
        return apart(() -> jdbc.sql(schema.sql("""
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

    /** Whether it was still the holder's. The row stays, so that the next token is drawn under its lock. */
    public boolean release(String name, long token) {
        return apart(() -> jdbc.sql(schema.sql("""
                        UPDATE ~.forge_locks SET expires_at = clock_timestamp()
                        WHERE lock_name = ? AND token = ? AND expires_at > clock_timestamp()
                        """)).params(name, token).update()) == 1;
    }

    /**
     * Forgets locks that expired longer ago than that, up to that many. The lock of a startup action is kept for a year unless
     * its last holder has completed the action: a holder that was cut off completes it by this row.
     */
    public int purge(Duration retention, int limit) {
        return jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_locks WHERE lock_name = ANY (ARRAY(
                    SELECT l.lock_name FROM ~.forge_locks l
                    WHERE l.expires_at < clock_timestamp() - :retention * interval '1 millisecond'
                      AND (NOT starts_with(l.lock_name, :action)
                           OR l.expires_at < clock_timestamp() - interval '1 year'
                           OR EXISTS (SELECT FROM ~.forge_startup_actions a
                                      WHERE a.name = substr(l.lock_name, length(:action) + 1) AND a.token = l.token))
                    LIMIT :limit FOR UPDATE OF l SKIP LOCKED))
                """))
                .param("action", StartupActionStore.LOCK_PREFIX)
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .update();
    }

    /** A lock as everybody sees it. */
    public record Held(String name, UUID owner, long token, OffsetDateTime lockedAt, OffsetDateTime expiresAt) {}

    /** The locks that were taken last and have not expired, so many at most. */
    public List<Held> held(int limit) {
        return jdbc.sql(schema.sql("""
                SELECT lock_name, owner_node, token, locked_at, expires_at FROM ~.forge_locks l
                WHERE %s ORDER BY locked_at DESC, lock_name LIMIT ?
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

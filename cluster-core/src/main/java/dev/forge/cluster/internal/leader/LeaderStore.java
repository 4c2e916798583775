// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Fences of leader roles, and the list of leaders.
 *
 * <p>The row of a role in {@code forge_leaders} is its fence. A fenced write holds the row shared until it commits; a term
 * begins in a transaction that holds it exclusively, see {@link ElectionStore}. So a term either begins before such a write
 * checks it, and the write fails, or after the write has committed. The fence is a row and not an advisory lock, because every
 * role that may connect can take an advisory lock.
 */
public final class LeaderStore {

    /** How long a fenced write waits for its fence, which other sessions lock only while a term begins. */
    private static final Duration FENCE_PATIENCE = Duration.ofSeconds(2);

    private final Schema schema;
    private final CallerTransaction caller;
    private final JdbcClient jdbc;

    public LeaderStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.caller = new CallerTransaction(source);
        this.jdbc = JdbcClient.create(source);
    }

    /** Returns the transactions that statements of this store join. */
    CallerTransaction caller() {
        return caller;
    }

    /**
     * Bounds how long the transaction may be idle; the first statement of a fenced transaction. A client that is frozen or cut
     * off inside of the transaction would otherwise keep its rows locked against its successor.
     */
    public void boundIdleness(Duration longest) {
        jdbc.sql("SELECT set_config('idle_in_transaction_session_timeout', ?, true)")
                .param(longest.toMillis() + "ms")
                .query((row, n) -> true)
                .single();
    }

    /**
     * Takes the fence with the last statements of a fenced transaction, on its own connection. The transaction keeps its {@code
     * lock_timeout}.
     *
     * @return whether the term is the current one; it then stays current until the transaction ends
     * @throws CannotAcquireLockException if another session held the fence for too long; the transaction must be rolled back
     */
    public boolean fence(String role, UUID node, long term) {
        // A frozen client must not hold the fence, and with it the next election, for longer than this. A shorter
        // lock_timeout of the application stays in force.
        String lockTimeout = jdbc.sql("""
                SELECT current_setting('lock_timeout'),
                       set_config('idle_in_transaction_session_timeout', '2s', true),
                       CASE WHEN current_setting('lock_timeout')::interval
                                BETWEEN interval '1 millisecond' AND interval '%1$d milliseconds'
                           THEN '' ELSE set_config('lock_timeout', '%1$dms', true) END
                """.formatted(FENCE_PATIENCE.toMillis()))
                .query((row, n) -> row.getString(1))
                .single();
        boolean current;
        try {
            current = jdbc.sql(schema.sql("""
                    SELECT 1 FROM ~.forge_leaders WHERE role = ? AND node_id = ? AND current_term = ? FOR SHARE
                    """))
                    .params(role, node, term)
                    .query(Integer.class)
                    .optional()
                    .isPresent();
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == Kind.LOCK_TIMEOUT) {
                throw new CannotAcquireLockException(
                        "Role %s: another session holds its row in forge_leaders locked; the fenced transaction of term %d is"
                                        .formatted(role, term)
                                + " rolled back and can be retried",
                        e);
            }
            throw e;
        }
        // The caller's transaction may continue after the fence.
        jdbc.sql("SELECT set_config('lock_timeout', ?::text, true)")
                .param(lockTimeout)
                .query((row, n) -> true)
                .single();
        return current;
    }

    /** A role with its leader. */
    public record Leader(
            String role,
            @Nullable UUID node,
            long term,
            @Nullable OffsetDateTime acquiredAt) {}

    /** Returns all roles that ever had a leader, except those of daemons. A node whose lease has ended counts as no leader. */
    public List<Leader> leaders() {
        return jdbc.sql(schema.sql("""
                        SELECT l.role, CASE WHEN s.lease_until > clock_timestamp() THEN l.node_id END, l.current_term,
                               l.acquired_at
                        FROM ~.forge_leaders l
                        LEFT JOIN ~.forge_leader_leases s ON s.role = l.role AND s.node_id = l.node_id
                        WHERE l.role NOT LIKE 'daemon:%' ORDER BY l.role
                        """))
                .query((row, n) -> new Leader(
                        row.getString(1),
                        row.getObject(2, UUID.class),
                        row.getLong(3),
                        row.getObject(4, OffsetDateTime.class)))
                .list();
    }

    /**
     * Ends the leases and leaderships of a dead node, in the caller's transaction. Skips rows that other sessions have locked;
     * elections find those later.
     */
    public void releaseHeldBy(UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_leader_leases SET lease_until = clock_timestamp(), node_id = NULL
                WHERE role = ANY (ARRAY(
                    SELECT role FROM ~.forge_leader_leases WHERE node_id = ? ORDER BY role FOR UPDATE SKIP LOCKED))
                """)).param(node).update();
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_leaders SET node_id = NULL
                WHERE role = ANY (ARRAY(
                    SELECT role FROM ~.forge_leaders WHERE node_id = ? ORDER BY role FOR UPDATE SKIP LOCKED))
                """)).param(node).update();
    }
}

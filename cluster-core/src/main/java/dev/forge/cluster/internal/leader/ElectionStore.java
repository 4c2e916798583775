// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionCallback;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Terms, leases and locks of leader roles, as {@link Elector} begins, renews and ends them.
 *
 * <p>The row of a role in {@code forge_leaders} is its fence, see {@link LeaderStore}. A term begins in one transaction that
 * holds the row locked exclusively. Leases are in {@code forge_leader_leases}, so that renewals do not touch the fence.
 */
public final class ElectionStore {

    private static final Logger log = GuardedLogger.of(ElectionStore.class);

    /** The largest term that the type of the column admits. */
    public static final long LAST_TERM = 1_000_000_000_000_000_000L;

    private final Schema schema;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;

    /** @param source the session connection of the node if locks are used; any connection otherwise */
    public ElectionStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = JdbcClient.create(source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /**
     * A term that has begun.
     *
     * @param predecessor the node whose death ends the dispute; null if there is none
     * @param disputed for how long a former leader may still believe that it leads
     */
    public record Term(String role, long number, @Nullable UUID predecessor, Duration disputed) {}

    /** The outcome of an attempt to begin a term. */
    public sealed interface BeginResult {

        /** The term has begun. */
        record Begun(Term term) implements BeginResult {}

        /** The role is not free on that basis, or the node may not lead. */
        record Refused() implements BeginResult {}

        /** Fenced writes held the role's row for as long as the caller was willing to wait. */
        record FenceBusy() implements BeginResult {}

        /** The row has the last possible term, which only SQL can have written. */
        record NoTermLeft() implements BeginResult {}
    }

    /** Tries to take the advisory locks of those roles; returns the roles whose lock it got. Needs a session connection. */
    public Set<String> tryLocks(Collection<String> roles) {
        return lockFunction("pg_try_advisory_lock", roles);
    }

    /** Releases the advisory locks of those roles. */
    public void unlock(Collection<String> roles) {
        lockFunction("pg_advisory_unlock", roles);
    }

    private Set<String> lockFunction(String function, Collection<String> roles) {
        if (roles.isEmpty()) {
            return Set.of();
        }
        List<String> ordered = roles.stream().sorted().toList();
        // Keys are part of the text, which is the same as long as the roles are.
        String sql = ordered.stream()
                .map(role -> "%s(%s)".formatted(function, schema.keys().leader(role)))
                .collect(Collectors.joining(", ", "SELECT ", ""));
        return jdbc.sql(sql)
                .query((row, n) -> {
                    var got = new TreeSet<String>();
                    for (int i = 0; i < ordered.size(); i++) {
                        if (row.getBoolean(i + 1)) {
                            got.add(ordered.get(i));
                        }
                    }
                    return got;
                })
                .single();
    }

    /**
     * Returns the server's timeline, which each promotion of a standby raises; empty if the server does not reveal it, as some
     * managed servers do. Must not be called in a transaction: a refusal would end it.
     */
    public OptionalLong timeline() {
        try {
            // pg_control_checkpoint() would return the former timeline for a while after a promotion.
            return OptionalLong.of(jdbc.sql("SELECT pg_walfile_name(pg_current_wal_lsn())")
                    .query((row, n) -> Long.parseLong(row.getString(1).substring(0, 8), 16))
                    .single());
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e).isOfServer()) {
                throw e;
            }
            log.debug("Server does not reveal its timeline: leaders have no fencing tokens", e);
            return OptionalLong.empty();
        }
    }

    /** Makes a round trip, which fails if the connection is lost. */
    public void ping() {
        jdbc.sql("SELECT 1").query(Integer.class).single();
    }

    /** Returns those of the roles that have no valid lease. */
    public Set<String> rolesWithoutLease(Collection<String> roles) {
        return Set.copyOf(jdbc.sql(schema.sql("""
                SELECT r.role FROM unnest(:roles) AS r (role)
                LEFT JOIN ~.forge_leader_leases l ON l.role = r.role
                WHERE l.node_id IS NULL OR l.lease_until <= clock_timestamp()
                """))
                .param("roles", roles.toArray(String[]::new))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /**
     * Begins the next term of a role with that node as its leader.
     *
     * @param patience how long to wait for fenced writes in flight
     */
    public BeginResult begin(String role, UUID node, Duration lease, LeadershipBasis basis, Duration patience) {
        return Objects.requireNonNull(this.<BeginResult>unlessLocked(BeginResult.FenceBusy::new, status -> {
            // lock_timeout starts again with each fenced write that is waited for; both timeouts together bound the
            // wait.
            String statementTimeout = jdbc.sql("""
                    SELECT current_setting('statement_timeout'), set_config('lock_timeout', :patience, true),
                           set_config('statement_timeout', :patience, true),
                           set_config('idle_in_transaction_session_timeout', '2s', true)
                    """)
                    .param("patience", patience.toMillis() + "ms")
                    .query((row, n) -> row.getString(1))
                    .single();
            long present = lockFence(role);
            jdbc.sql("SELECT set_config('statement_timeout', ?, true)")
                    .param(statementTimeout)
                    .query((row, n) -> true)
                    .single();
            if (present >= LAST_TERM) {
                return new BeginResult.NoTermLeft();
            }
            Term term = beginFenced(role, node, lease, basis);
            if (term == null) {
                // No row may stay of a role that was never led.
                status.setRollbackOnly();
                return new BeginResult.Refused();
            }
            return new BeginResult.Begun(term);
        }));
    }

    /**
     * Locks the role's row and returns its term. Must come before any other lock: a candidate that waits for the fence must not
     * keep the present leader from renewing its lease.
     */
    private long lockFence(String role) {
        String lock = schema.sql("SELECT current_term FROM ~.forge_leaders WHERE role = ? FOR NO KEY UPDATE");
        return jdbc.sql(lock).param(role).query(Long.class).optional().orElseGet(() -> {
            jdbc.sql(schema.sql("INSERT INTO ~.forge_leaders (role) VALUES (?) ON CONFLICT DO NOTHING"))
                    .param(role)
                    .update();
            return jdbc.sql(lock).param(role).query(Long.class).optional().orElse(0L);
        });
    }

    /** Tolerates times that were edited by hand: infinite ones cannot be subtracted, and a day is longer than any lease. */
    private static String millisUntil(String column) {
        return """
                greatest(0, extract(epoch FROM least(greatest(%s, '2000-01-01'), clock_timestamp() + interval '1 day')
                                               - clock_timestamp()) * 1000)::bigint""".formatted(column);
    }

    private @Nullable Term beginFenced(String role, UUID node, Duration lease, LeadershipBasis basis) {
        Predecessor predecessor = jdbc.sql(
                        schema.sql("""
                SELECT node_id, backend_pid IS NULL AS by_lease,
                       %s, %s
                FROM ~.forge_leader_leases WHERE role = ? FOR UPDATE
                """.formatted(millisUntil("lease_until"), millisUntil("disputed_until"))))
                .param(role)
                .query((row, n) -> new Predecessor(
                        row.getObject(1, UUID.class),
                        row.getBoolean(2),
                        Duration.ofMillis(row.getLong(3)),
                        Duration.ofMillis(row.getLong(4))))
                .optional()
                .orElse(Predecessor.NONE);
        if (!predecessor.yieldsTo(node, basis)) {
            return null;
        }
        // A node that drains or was declared dead must not be elected.
        Long number = jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_leaders AS l (role, node_id, current_term, acquired_at)
                SELECT :role, n.id, 1, clock_timestamp() FROM ~.forge_nodes n
                WHERE n.id = :node AND n.status IN ('joining', 'active', 'stale')
                ON CONFLICT (role) DO UPDATE
                SET node_id = excluded.node_id, current_term = l.current_term + 1, acquired_at = excluded.acquired_at
                RETURNING current_term
                """))
                .param("role", role)
                .param("node", node)
                .query(Long.class)
                .optional()
                .orElse(null);
        if (number == null) {
            return null;
        }
        Duration disputed = predecessor.disputeWith(node);
        jdbc.sql(schema.sql("""
                INSERT INTO ~.forge_leader_leases
                    (role, node_id, lease_until, backend_pid, backend_start, disputed_until)
                SELECT :role, :node, clock_timestamp() + :lease * interval '1 millisecond', pid, backend_start,
                       clock_timestamp() + :disputed * interval '1 millisecond'
                FROM (VALUES (1)) AS always LEFT JOIN pg_stat_activity ON :locked AND pid = pg_backend_pid()
                ON CONFLICT (role) DO UPDATE
                SET node_id = excluded.node_id, lease_until = excluded.lease_until,
                    backend_pid = excluded.backend_pid, backend_start = excluded.backend_start,
                    disputed_until = excluded.disputed_until
                """))
                .param("disputed", disputed.toMillis())
                .param("role", role)
                .param("node", node)
                .param("lease", lease.toMillis())
                .param("locked", basis == LeadershipBasis.LOCK)
                .update();
        // The predecessor's death ends the dispute only if no leader before it may still believe that it leads.
        boolean endsByDeath = !node.equals(predecessor.node) && predecessor.disputed.isZero();
        return new Term(role, number, endsByDeath ? predecessor.node : null, disputed);
    }

    /** Runs work in one transaction; returns the result of {@code busy} if the work could not get a lock in time. */
    private <T> @Nullable T unlessLocked(Supplier<@Nullable T> busy, TransactionCallback<@Nullable T> work) {
        try {
            return transaction.execute(work);
        } catch (DataAccessException e) {
            Kind kind = DatabaseFailure.kind(e);
            if (kind == Kind.LOCK_TIMEOUT || kind == Kind.STATEMENT_TIMEOUT) {
                return busy.get();
            }
            throw e;
        }
    }

    /**
     * The last leader of a role.
     *
     * @param byLease whether it leads without the advisory lock
     * @param remaining until its lease ends
     * @param disputed for how long a leader before it may still believe that it leads
     */
    private record Predecessor(@Nullable UUID node, boolean byLease, Duration remaining, Duration disputed) {

        static final Predecessor NONE = new Predecessor(null, false, Duration.ZERO, Duration.ZERO);

        /** Returns for how long another node may believe that it leads: this one, or a leader before it. */
        Duration disputeWith(UUID candidate) {
            boolean own = node == null || node.equals(candidate);
            return own || disputed.compareTo(remaining) > 0 ? disputed : remaining;
        }

        boolean yieldsTo(UUID candidate, LeadershipBasis basis) {
            boolean over = node == null || node.equals(candidate) || remaining.isZero();
            return switch (basis) {
                // The candidate has the lock, so the session of a predecessor that held the lock has ended.
                case LOCK -> over || !byLease;
                case LEASE -> over;
            };
        }
    }

    /** Renews the leases of those roles; returns the roles whose lease the node still has. */
    public Set<String> renew(Collection<String> roles, UUID node, Duration lease) {
        return Set.copyOf(jdbc.sql(schema.sql("""
                UPDATE ~.forge_leader_leases SET lease_until = clock_timestamp() + :lease * interval '1 millisecond'
                WHERE role = ANY (:roles) AND node_id = :node RETURNING role
                """))
                .param("roles", roles.toArray(String[]::new))
                .param("node", node)
                .param("lease", lease.toMillis())
                .query((row, n) -> row.getString(1))
                .list());
    }

    /** Records that this session holds the advisory lock of a role which the node has led by its lease alone. */
    public void adoptLock(String role, UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_leader_leases l SET backend_pid = a.pid, backend_start = a.backend_start
                FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND l.role = ? AND l.node_id = ?
                """)).params(role, node).update();
    }

    /**
     * Ends the session of a leader whose lease has expired: a frozen leader would keep its advisory lock without limit. Returns
     * false if there is no such session, or if this database role may not end it.
     */
    public boolean evict(String role) {
        try {
            return jdbc.sql(schema.sql("""
                    SELECT pg_terminate_backend(a.pid) FROM ~.forge_leader_leases l
                    JOIN pg_stat_activity a ON a.pid = l.backend_pid AND a.backend_start = l.backend_start
                    WHERE l.role = ? AND l.lease_until <= clock_timestamp() AND a.datname = current_database()
                      AND a.pid <> pg_backend_pid()
                    """))
                    .param(role)
                    .query(Boolean.class)
                    .optional()
                    .orElse(false);
        } catch (DataAccessException e) {
            // The session belongs to another database role. Its lease has expired, so its lock is not needed to take
            // over.
            return false;
        }
    }

    /**
     * Ends the node's leadership in the tables. The term stays, because terms only grow. A row that a fenced write holds keeps
     * the node's id until the next term.
     *
     * @param undisputed whether no leader before this node can still believe that it leads; the successor need not wait then
     */
    public void release(String role, UUID node, boolean undisputed) {
        unlessLocked(() -> null, status -> {
            jdbc.sql("SET LOCAL lock_timeout = '200ms'").update();
            jdbc.sql(schema.sql("""
                    UPDATE ~.forge_leaders SET node_id = NULL
                    WHERE role = ANY (ARRAY(
                        SELECT role FROM ~.forge_leaders WHERE role = ? AND node_id = ? FOR NO KEY UPDATE SKIP LOCKED))
                    """)).params(role, node).update();
            return jdbc.sql(schema.sql("""
                            UPDATE ~.forge_leader_leases
                            SET node_id = NULL, lease_until = clock_timestamp(), backend_pid = NULL, backend_start = NULL,
                                disputed_until = CASE WHEN ? THEN '-infinity' ELSE disputed_until END
                            WHERE role = ? AND node_id = ?
                            """)).params(undisputed, role, node).update();
        });
    }
}

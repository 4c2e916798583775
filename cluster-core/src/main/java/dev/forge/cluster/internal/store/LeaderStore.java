package dev.forge.cluster.internal.store;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
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
import org.springframework.core.NestedExceptionUtils;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.support.TransactionCallback;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_leaders} and {@code forge_leader_leases}, and the locks beside them.
 *
 * <p>The role's row in {@code forge_leaders} is its fence. A term begins in one transaction that holds the row locked
 * exclusively; a fenced write holds it shared until it commits. So a term either begins before such a write checks it, and
 * the write fails, or after it has committed. A row, not an advisory lock: anybody who may connect can take the latter.
 */
public final class LeaderStore {

    private static final Logger log = GuardedLogger.of(LeaderStore.class);
    private static final String LOCK_NOT_AVAILABLE = "55P03";
    private static final String QUERY_CANCELED = "57014";

    /** The last term, as the type of the column has it. */
    public static final long LAST_TERM = 1_000_000_000_000_000_000L;

    /** How long a fenced write waits for its fence, which is locked by others only while a term begins. */
    private static final Duration FENCE_PATIENCE = Duration.ofSeconds(2);

    private final Schema schema;
    private final DataSource source;
    private final JdbcClient jdbc;
    private final TransactionTemplate transaction;

    /** @param source a node's session connection, where locks are used; any connection otherwise */
    public LeaderStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.source = source;
        this.jdbc = JdbcClient.create(source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /** On what ground a candidate asks for a role. */
    public enum Ground {
        /** It holds the role's lock: whoever led before has lost its session. */
        LOCK,
        /** It holds nothing: the lease must be free or expired. */
        LEASE
    }

    /**
     * A term that has begun.
     *
     * @param predecessor whose death would end the dispute; null if there is no such node
     * @param disputed for how long some former leader may still believe that it leads
     */
    public record Term(String role, long number, @Nullable UUID predecessor, Duration disputed) {}

    /** What came of the attempt to begin a term. */
    public sealed interface Beginning {

        /** The term has begun. */
        record Begun(Term term) implements Beginning {}

        /** The role is not free on that ground, or the node may not lead. */
        record Refused() implements Beginning {}

        /** Fenced writes were in flight for as long as the caller was willing to wait. */
        record FenceBusy() implements Beginning {}

        /** The row names the last possible term: somebody has written it by SQL. */
        record NoTermLeft() implements Beginning {}
    }

    /** Tries the locks of those roles; answers which it has got. Only on a session connection. */
    public Set<String> tryLocks(Collection<String> roles) {
        return lockFunction("pg_try_advisory_lock", roles);
    }

    /** Gives the locks of those roles back. */
    public void unlock(Collection<String> roles) {
        lockFunction("pg_advisory_unlock", roles);
    }

    private Set<String> lockFunction(String function, Collection<String> roles) {
        if (roles.isEmpty()) {
            return Set.of();
        }
        List<String> ordered = roles.stream().sorted().toList();
        // Keys are numbers of ours and stand in the text; the text is the same as long as the roles are.
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
     * The server's timeline, which each promotion of a standby raises; empty where the server does not tell, as some managed
     * ones do. Not in a transaction: a refusal would end it.
     */
    public OptionalLong timeline() {
        try {
            // The last checkpoint would tell a former one for a while after a promotion.
            return OptionalLong.of(jdbc.sql("SELECT pg_walfile_name(pg_current_wal_lsn())")
                    .query((row, n) -> Long.parseLong(row.getString(1).substring(0, 8), 16))
                    .single());
        } catch (DataAccessException e) {
            if (ServerFailure.caused(e)) {
                throw e;
            }
            log.debug("the server does not tell its timeline: there are no fencing tokens", e);
            return OptionalLong.empty();
        }
    }

    /** A round trip, to know that the connection lives. */
    public void ping() {
        jdbc.sql("SELECT 1").query(Integer.class).single();
    }

    /** Whether statements of this store join the transaction that the caller is in. */
    public boolean isInTransaction() {
        Connection connection = DataSourceUtils.getConnection(source);
        try {
            return DataSourceUtils.isConnectionTransactional(connection, source);
        } finally {
            DataSourceUtils.releaseConnection(connection, source);
        }
    }

    /** Roles without a lease that is valid now. */
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
    public Beginning begin(String role, UUID node, Duration lease, Ground ground, Duration patience) {
        return Objects.requireNonNull(this.<Beginning>unlessLocked(Beginning.FenceBusy::new, status -> {
            // lock_timeout counts anew for each fenced write that is waited for; both together bound the wait.
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
                return new Beginning.NoTermLeft();
            }
            Term term = beginFenced(role, node, lease, ground);
            if (term == null) {
                // Leaves no row of a role that nobody has ever led.
                status.setRollbackOnly();
                return new Beginning.Refused();
            }
            return new Beginning.Begun(term);
        }));
    }

    /**
     * Locks the role's row; answers its term. Before anything else is locked: who waits for the fence must not keep the present
     * leader from renewing its lease.
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

    private @Nullable Term beginFenced(String role, UUID node, Duration lease, Ground ground) {
        Former former = jdbc.sql(schema.sql("""
                SELECT node_id, backend_pid IS NULL AS by_lease,
                       greatest(0, extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint,
                       greatest(0, extract(epoch FROM greatest(disputed_until, '2000-01-01') - clock_timestamp())
                                   * 1000)::bigint
                FROM ~.forge_leader_leases WHERE role = ? FOR UPDATE
                """))
                .param(role)
                .query((row, n) -> new Former(
                        row.getObject(1, UUID.class),
                        row.getBoolean(2),
                        Duration.ofMillis(row.getLong(3)),
                        Duration.ofMillis(row.getLong(4))))
                .optional()
                .orElse(Former.NONE);
        if (!former.yieldsTo(node, ground)) {
            return null;
        }
        // A node that is draining or was declared dead meanwhile must not win.
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
        Duration disputed = former.disputeWith(node);
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
                .param("locked", ground == Ground.LOCK)
                .update();
        // Whose death would settle it at once: only if nobody before it may still believe that it leads.
        UUID predecessor = node.equals(former.node) || !former.disputed.isZero() ? null : former.node;
        return new Term(role, number, predecessor, disputed);
    }

    /** In one transaction; {@code busy} answers if a lock that it needs is not to be had in time. */
    private <T> @Nullable T unlessLocked(Supplier<@Nullable T> busy, TransactionCallback<@Nullable T> work) {
        try {
            return transaction.execute(work);
        } catch (DataAccessException e) {
            if (isLockTimeout(e) || hasState(e, QUERY_CANCELED)) {
                return busy.get();
            }
            throw e;
        }
    }

    private static boolean isLockTimeout(DataAccessException e) {
        return hasState(e, LOCK_NOT_AVAILABLE);
    }

    private static boolean hasState(DataAccessException e, String state) {
        return NestedExceptionUtils.getMostSpecificCause(e) instanceof SQLException cause
                && state.equals(cause.getSQLState());
    }

    private record Former(@Nullable UUID node, boolean byLease, Duration remaining, Duration disputed) {

        static final Former NONE = new Former(null, false, Duration.ZERO, Duration.ZERO);

        /** For how long somebody else may believe that it leads: the one before, or one before that. */
        Duration disputeWith(UUID candidate) {
            boolean own = node == null || node.equals(candidate);
            return own || disputed.compareTo(remaining) > 0 ? disputed : remaining;
        }

        boolean yieldsTo(UUID candidate, Ground ground) {
            boolean over = node == null || node.equals(candidate) || remaining.isZero();
            return switch (ground) {
                // The lock is free: a former holder of the lock is gone, whatever its lease says.
                case LOCK -> over || !byLease;
                case LEASE -> over;
            };
        }
    }

    /** Renews the leases of those roles; answers for which that node still has one. */
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

    /** Notes that the leader, who had only its lease so far, holds the lock too with this session. */
    public void adoptLock(String role, UUID node) {
        jdbc.sql(schema.sql("""
                UPDATE ~.forge_leader_leases l SET backend_pid = a.pid, backend_start = a.backend_start
                FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND l.role = ? AND l.node_id = ?
                """)).params(role, node).update();
    }

    /**
     * Ends the session of a leader whose lease has expired: frozen, it would keep its lock for as long as it likes.
     * Answers false where there is no such session or we may not end it.
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
            // Of another database role: its expired lease is reason enough to take over without its lock.
            return false;
        }
    }

    /**
     * Ends that node's leadership in the tables. The term stays: it only ever grows. Where a fenced write holds the row,
     * it keeps the node's name until the next term.
     *
     * @param settled whether the node knows that nobody before it can still believe that it leads: its successor need
     *     not wait for them, either
     */
    public void release(String role, UUID node, boolean settled) {
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
                            """)).params(settled, role, node).update();
        });
    }

    /**
     * The first statement of a fenced transaction. A client that is frozen or cut off in the middle of it would hold
     * whatever rows it has locked against its successor.
     */
    public void boundIdleness(Duration longest) {
        jdbc.sql("SELECT set_config('idle_in_transaction_session_timeout', ?, true)")
                .param(longest.toMillis() + "ms")
                .query((row, n) -> true)
                .single();
    }

    /**
     * The last statements of a fenced transaction, on its own connection. Answers whether that term is still the
     * current one; if so it stays so until the transaction ends. The transaction keeps its {@code lock_timeout}.
     *
     * @throws CannotAcquireLockException if another session held the fence for too long; the transaction cannot go on
     */
    public boolean fence(String role, UUID node, long term) {
        // A frozen client must not hold the fence, and with it the next election, for longer than this. A shorter wait
        // for locks that the application has set stays in force.
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
            if (isLockTimeout(e)) {
                throw new CannotAcquireLockException(
                        "Role %s: another session holds its row in forge_leaders locked; the fenced transaction of term %d is"
                                        .formatted(role, term)
                                + " rolled back and can be retried",
                        e);
            }
            throw e;
        }
        // The fence may have joined a transaction that goes on.
        jdbc.sql("SELECT set_config('lock_timeout', ?::text, true)")
                .param(lockTimeout)
                .query((row, n) -> true)
                .single();
        return current;
    }

    /** A leadership as everybody sees it. */
    public record Leader(
            String role,
            @Nullable UUID node,
            long term,
            @Nullable OffsetDateTime acquiredAt) {}

    /** All roles that ever had a leader, without those of daemons. Who has not renewed its lease does not lead. */
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
}

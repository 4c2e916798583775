// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.Ordered;
import org.springframework.core.PriorityOrdered;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.transaction.TransactionSystemException;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * The transaction of a bound connection, and what has to be done after its commit. While Spring tells others of the end, the
 * connection stays bound and looks as it did before. This object is told first, whenever the others were registered, and remembers.
 */
final class BoundTransaction implements TransactionSynchronization, PriorityOrdered {

    private static final Logger log = GuardedLogger.of(BoundTransaction.class);

    /** Those of this thread by what is bound, also while they are suspended. No value refers to its key. */
    private static final ThreadLocal<Map<Object, BoundTransaction>> FOLLOWED =
            ThreadLocal.withInitial(WeakHashMap::new);

    private final DataSource source;
    private final boolean endsConnections;
    private final List<Runnable> actions = new ArrayList<>();

    /** How many actions there were at each savepoint. */
    private final IdentityHashMap<Object, Integer> savepoints = new IdentityHashMap<>(0);

    private boolean joined;
    private boolean ended;

    private BoundTransaction(DataSource source, boolean endsConnections) {
        this.source = source;
        this.endsConnections = endsConnections;
    }

    /** Returns the transaction of what is bound; null if it is not followed yet. */
    static @Nullable BoundTransaction of(Object bound) {
        return FOLLOWED.get().get(bound);
    }

    /**
     * Follows the current transaction until its end.
     *
     * @param endsConnections whether nothing remains open on the connection when Spring tells of the end. Otherwise, this may be a
     *     part of a transaction that goes on
     */
    static BoundTransaction follow(DataSource source, Object bound, boolean endsConnections) {
        var transaction = new BoundTransaction(source, endsConnections);
        FOLLOWED.get().put(bound, transaction);
        TransactionSynchronizationManager.registerSynchronization(transaction);
        return transaction;
    }

    /** Returns whether it is committed or rolled back, or may be either. */
    boolean hasEnded() {
        return ended;
    }

    /** Notes that statements of the cluster are part of it. */
    void join() {
        joined = true;
    }

    /** Adds what is to be done after the commit. */
    void add(Runnable action) {
        actions.add(action);
    }

    int actions() {
        return actions.size();
    }

    /** Drops all actions except for the first ones. */
    void keep(int first) {
        actions.subList(first, actions.size()).clear();
    }

    // Told by Spring ----------------------------------------------------------------------------------------

    /** Before all others. */
    @Override
    public int getOrder() {
        return Ordered.HIGHEST_PRECEDENCE;
    }

    @Override
    public void resume() {
        // A manager may have begun another transaction on the same connection.
        Object bound = TransactionSynchronizationManager.getResource(source);
        if (bound != null) {
            FOLLOWED.get().put(bound, this);
        }
    }

    @Override
    public void savepoint(Object savepoint) {
        savepoints.put(savepoint, actions.size());
    }

    @Override
    public void savepointRollback(Object savepoint) {
        // A savepoint that is unknown is older than the first call.
        keep(savepoints.getOrDefault(savepoint, 0));
    }

    @Override
    public void afterCommit() {
        end(true);
    }

    @Override
    public void afterCompletion(int status) {
        if (!ended) {
            end(status == STATUS_COMMITTED);
        } else if (status == STATUS_UNKNOWN) {
            // Only a part of a transaction has ended.
            FOLLOWED.get().values().remove(this);
        }
        actions.clear();
    }

    private void end(boolean committed) {
        ended = true;
        boolean kept = (joined && endsConnections) ? endStatements(committed) : committed;
        if (kept) {
            actions.forEach(Runnable::run);
        }
    }

    /**
     * Ends what was written on the connection after its transaction, which Spring would leave to chance; does nothing if nothing was
     * written. Returns whether it is committed.
     */
    private boolean endStatements(boolean committed) {
        if (!(TransactionSynchronizationManager.getResource(source) instanceof ConnectionHolder holder)) {
            return committed;
        }
        boolean commit = committed && !holder.isRollbackOnly();
        try {
            Connection connection = holder.getConnection();
            if (!connection.getAutoCommit()) {
                if (commit) {
                    connection.commit();
                } else {
                    connection.rollback();
                }
            }
        } catch (SQLException e) {
            if (commit) {
                throw new TransactionSystemException("Could not commit what was written after the commit", e);
            }
            log.debug("Connection lost; the server rolls back", e);
        }
        return commit;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.DedicatedConnection;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.UncategorizedSQLException;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Manages transactions of the cluster's own statements. A failed rollback on a lost connection is ignored: the server rolls back
 * by itself, and the exception would hide the first failure.
 *
 * <p>Transactions are READ COMMITTED, whatever the default of the pool, the role or the database is: the cluster's statements wait
 * for rows that others change, and continue with the new values. Under a snapshot they would fail.
 */
public final class OwnTransactions extends JdbcTransactionManager {

    private static final long serialVersionUID = 1L;
    private static final Logger log = GuardedLogger.of(OwnTransactions.class);

    private final boolean readCommitted;

    public OwnTransactions(DataSource source) {
        super(source);
        this.readCommitted = ControlConnections.areReadCommitted(source);
        addListener(new BegunTransactions(source));
    }

    /**
     * Returns a template that runs each action in a transaction of its own. In the caller's transaction Spring would keep the
     * connection until that transaction ends.
     */
    public static TransactionTemplate separate(DataSource source) {
        var template = new TransactionTemplate(new OwnTransactions(source));
        template.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        return template;
    }

    /** Returns whether a transaction of the data source is bound to this thread, of whichever manager. */
    boolean isActive() {
        return isExistingTransaction(doGetTransaction());
    }

    /**
     * Also sees a transaction whose manager shares its connection, as that of JPA does. A connection that Spring has bound only
     * to use it again is synchronized with the transaction of another data source, or with none.
     */
    @Override
    protected boolean isExistingTransaction(Object transaction) {
        return super.isExistingTransaction(transaction)
                || (bound() instanceof ConnectionHolder holder && !holder.isSynchronizedWithTransaction());
    }

    @Nullable
    Object bound() {
        return TransactionSynchronizationManager.getResource(obtainDataSource());
    }

    /** Returns whether the bound transaction is read-only, which Spring knows only of the outermost one. */
    boolean isReadOnly() {
        try {
            return bound() instanceof ConnectionHolder holder
                    && holder.getConnection().isReadOnly();
        } catch (SQLException e) {
            // The next statement fails.
            return false;
        }
    }

    /** Returns whether the bound connection commits each statement by itself, as that of JPA does after the commit. */
    boolean isAutoCommit() {
        try {
            return bound() instanceof ConnectionHolder holder
                    && holder.getConnection().getAutoCommit();
        } catch (SQLException e) {
            // The next statement fails.
            return false;
        }
    }

    // As the first statement of the transaction, not for the session as Spring does it: a transaction pooler would give
    // the session to another client.
    @Override
    protected void prepareTransactionalConnection(Connection connection, TransactionDefinition definition)
            throws SQLException {
        super.prepareTransactionalConnection(connection, definition);
        if (!readCommitted) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(DedicatedConnection.READ_COMMITTED);
            }
        }
    }

    /** Failures at the commit, of deferred constraints for example, look like those of the statement before. */
    @Override
    protected RuntimeException translateException(String task, SQLException failure) {
        RuntimeException translated = super.translateException(task, failure);
        return translated instanceof DataAccessException
                ? translated
                : new UncategorizedSQLException(task, null, failure);
    }

    @Override
    protected void doRollback(DefaultTransactionStatus status) {
        try {
            super.doRollback(status);
        } catch (RuntimeException e) {
            if (DatabaseFailure.kind(e) != Kind.CONNECTION_LOST) {
                throw e;
            }
            log.debug("Connection lost; the server rolls back", e);
        }
    }
}

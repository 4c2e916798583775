package dev.forge.cluster.internal.store;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;

/**
 * Transactions of the cluster's own statements. A connection that is gone cannot be told to roll back, and need not be: that
 * it cannot must not hide the failure before it, which Spring would log as an error.
 *
 * <p>They are READ COMMITTED, whatever the default of the pool, the role or the database is: our statements wait for rows that
 * others change, and go on with what those have written. Under a snapshot they would fail instead.
 */
final class OwnTransactions extends JdbcTransactionManager {

    private static final long serialVersionUID = 1L;
    private static final Logger log = GuardedLogger.of(OwnTransactions.class);

    private final boolean readCommitted;

    OwnTransactions(DataSource source) {
        super(source);
        this.readCommitted = ControlConnections.areReadCommitted(source);
    }

    // As the first statement, and not as Spring would: what the driver sets for the session a transaction pooler gives
    // to
    // another one.
    @Override
    protected void prepareTransactionalConnection(Connection connection, TransactionDefinition definition)
            throws SQLException {
        super.prepareTransactionalConnection(connection, definition);
        if (!readCommitted) {
            try (Statement statement = connection.createStatement()) {
                statement.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
            }
        }
    }

    @Override
    protected void doRollback(DefaultTransactionStatus status) {
        try {
            super.doRollback(status);
        } catch (RuntimeException e) {
            if (!ConnectionLoss.caused(e)) {
                throw e;
            }
            log.debug("the server rolls back: the connection is gone", e);
        }
    }
}

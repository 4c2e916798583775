package dev.forge.cluster.internal.store;

import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;

/**
 * Transactions of the cluster's own statements. A connection that is gone cannot be told to roll back, and need not be: that
 * it cannot must not hide the failure before it, which Spring would log as an error.
 */
final class OwnTransactions extends JdbcTransactionManager {

    private static final long serialVersionUID = 1L;
    private static final Logger log = LoggerFactory.getLogger(OwnTransactions.class);

    OwnTransactions(DataSource source) {
        super(source);
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

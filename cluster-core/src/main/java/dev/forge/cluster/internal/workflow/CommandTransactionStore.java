package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.Objects;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The transaction in which a command (signal, cancel, retry) changes a run: the caller's, or one of its own. A command that is
 * rejected leaves no change in the caller's transaction, which can continue.
 */
final class CommandTransactionStore {

    private final DataSource source;
    private final JdbcTemplate jdbc;
    private final TransactionOperations ownTransaction;

    CommandTransactionStore(DataSource source) {
        this.source = source;
        this.jdbc = new JdbcTemplate(source);
        this.ownTransaction = new TransactionTemplate(new OwnTransactions(source));
    }

    <T> T execute(Supplier<T> command) {
        // Not by propagation: a transaction of JPA shares its connection, but not its manager.
        return TransactionSynchronizationManager.hasResource(source)
                ? Objects.requireNonNull(jdbc.execute((ConnectionCallback<T>) connection -> join(connection, command)))
                : Objects.requireNonNull(ownTransaction.execute(status -> command.get()));
    }

    private static <T> T join(Connection connection, Supplier<T> command) throws SQLException {
        Savepoint before = connection.setSavepoint();
        try {
            T result = command.get();
            connection.releaseSavepoint(before);
            return result;
        } catch (WorkflowRejectedException | DuplicateKeyException e) {
            connection.rollback(before);
            throw e;
        }
    }
}

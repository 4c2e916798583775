// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.StatementFailure;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The transaction in which a command (signal, cancel, retry) changes a run: the caller's, or one of its own. The command waits a
 * bounded time for each row that another transaction has locked.
 *
 * <p>A command that is rejected, or that cannot lock a row, leaves no change in the caller's transaction. That transaction can
 * continue, with the {@code lock_timeout} that it had before.
 */
final class CommandTransactionStore {

    private static final Duration LOCK_WAIT = Duration.ofSeconds(5);

    private final DataSource source;
    private final JdbcTemplate jdbc;
    private final TransactionOperations ownTransaction;

    CommandTransactionStore(DataSource source) {
        this.source = source;
        this.jdbc = new JdbcTemplate(source);
        this.ownTransaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /**
     * Executes a command to a run.
     *
     * @param command its name, for the message of the exception
     * @throws CannotAcquireLockException if another transaction keeps a row locked for too long
     */
    <T> T execute(String command, UUID run, Supplier<T> work) {
        // Not by propagation: a transaction of JPA shares its connection, but not its manager.
        return TransactionSynchronizationManager.hasResource(source)
                ? Objects.requireNonNull(
                        jdbc.execute((ConnectionCallback<T>) connection -> join(connection, command, run, work)))
                : Objects.requireNonNull(
                        ownTransaction.execute(status -> locking(command, run, limitLockWait(), work)));
    }

    private <T> T join(Connection connection, String command, UUID run, Supplier<T> work) throws SQLException {
        Savepoint before = connection.setSavepoint();
        try {
            LockTimeout timeout = limitLockWait();
            T result = locking(command, run, timeout, work);
            restore(timeout);
            connection.releaseSavepoint(before);
            return result;
        } catch (RuntimeException e) {
            if (canContinue(e)) {
                // Also restores the lock_timeout.
                connection.rollback(before);
            }
            throw e;
        }
    }

    /** Returns whether the caller's transaction can continue: other failures of the database have ended it. */
    private static boolean canContinue(RuntimeException failure) {
        return !(failure instanceof DataAccessException)
                || failure instanceof DuplicateKeyException
                || failure instanceof CannotAcquireLockException;
    }

    /** The {@code lock_timeout} that the transaction had before, and the one that the command has. */
    private record LockTimeout(String former, String effective) {}

    /** Limits the wait for locks for the rest of the transaction; a shorter limit of the application stays in force. */
    private LockTimeout limitLockWait() {
        return Objects.requireNonNull(jdbc.queryForObject(
                """
                SELECT current_setting('lock_timeout'),
                       CASE WHEN current_setting('lock_timeout')::interval
                                BETWEEN interval '1 millisecond' AND interval '%1$d milliseconds'
                           THEN current_setting('lock_timeout') ELSE set_config('lock_timeout', '%1$dms', true) END
                """.formatted(LOCK_WAIT.toMillis()), (row, n) -> new LockTimeout(row.getString(1), row.getString(2))));
    }

    private void restore(LockTimeout timeout) {
        if (!timeout.former.equals(timeout.effective)) {
            jdbc.queryForObject("SELECT set_config('lock_timeout', ?, true)", String.class, timeout.former);
        }
    }

    private static <T> T locking(String command, UUID run, LockTimeout timeout, Supplier<T> work) {
        try {
            return work.get();
        } catch (DataAccessException e) {
            if (!StatementFailure.isLocked(e)) {
                throw e;
            }
            throw new CannotAcquireLockException(
                    ("Workflow run %s: %s not executed, another transaction has locked the row of the run, of one of its"
                                    + " children or of their jobs for longer than %s. Nothing was changed. Repeat the call; if it"
                                    + " fails again, find the session that holds the lock with pg_blocking_pids and end its"
                                    + " transaction.")
                            .formatted(run, command, timeout.effective),
                    e);
        }
    }
}

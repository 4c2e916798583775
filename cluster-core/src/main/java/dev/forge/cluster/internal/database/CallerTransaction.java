// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ForeignTransactionException;
import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.internal.database.connection.ApplicationDataSource;
import dev.forge.cluster.internal.log.CallSites;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.Objects;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * The transaction of the cluster's data source that a call of the API joins, if there is one. No other class decides this.
 *
 * <p>What Spring has bound to the thread decides. A transaction of another data source does not count, and neither does a connection
 * that is only bound until the end of a method with {@code Propagation.SUPPORTS}: nobody would commit what a call has written there.
 */
public final class CallerTransaction {

    private static final Logger log = GuardedLogger.of(CallerTransaction.class);

    private static final CallSites CALL_SITES = new CallSites();

    private final OwnTransactions transactions;
    private final TransactionOperations separate;
    private final JdbcTemplate jdbc;
    private final DataSource source;
    private final ForeignTransactions foreign;

    /** The state of what Spring has bound to the thread. */
    private enum State {
        NONE,

        /** Statements can join it. */
        OPEN,

        /** Statements would not be committed: Spring calls those that want to know of its end. */
        ENDED,

        /** It is open, and its manager never tells of its end, so that nothing can be done after its commit. */
        SILENT
    }

    /** @param source the data source of the application, or one that no caller has transactions of */
    public CallerTransaction(DataSource source) {
        this.transactions = new OwnTransactions(source);
        this.separate = OwnTransactions.separate(source);
        this.jdbc = new JdbcTemplate(source);
        this.source = source;
        this.foreign = source instanceof ApplicationDataSource application
                ? application.foreignTransactions()
                : ForeignTransactions.WARN;
    }

    private State state() {
        if (!transactions.isActive()) {
            return State.NONE;
        }
        BoundTransaction known = known();
        if (known != null && known.hasEnded()) {
            return State.ENDED;
        }
        if (!TransactionSynchronizationManager.isSynchronizationActive()) {
            // Before it tells of the completion, Spring ends the synchronization.
            return SpringStack.nearest() == SpringStack.AFTER_COMPLETION ? State.ENDED : State.SILENT;
        }
        // A transaction is unknown if its manager is no bean, and nothing has joined it.
        boolean ended =
                transactions.isAutoCommit() || (known == null && SpringStack.nearest() == SpringStack.AFTER_COMMIT);
        return ended ? State.ENDED : State.OPEN;
    }

    private @Nullable BoundTransaction known() {
        return BoundTransaction.of(Objects.requireNonNull(transactions.bound()));
    }

    /** Returns whether statements join a transaction of the caller. */
    public boolean isActive() {
        return state() == State.OPEN;
    }

    /** Returns whether a transaction is open, even if statements cannot join it. */
    public boolean isOpen() {
        State state = state();
        return state == State.OPEN || state == State.SILENT;
    }

    /** Returns whether a transaction is bound that has ended: statements would not be committed. */
    public boolean hasEnded() {
        return state() == State.ENDED;
    }

    /** Returns whether Spring keeps a connection for this thread, or would keep one until a method returns. */
    public boolean keepsConnection() {
        return TransactionSynchronizationManager.isSynchronizationActive() || transactions.isActive();
    }

    // Statements --------------------------------------------------------------------------------------------

    /** Executes one statement: in the caller's transaction, otherwise committed by itself. */
    public <T> T run(Supplier<T> statement) {
        if (isActive()) {
            join();
            return statement.get();
        }
        // Otherwise Spring has bound a connection whose statements nobody commits, or would bind one for longer.
        return keepsConnection() ? separately(statement) : statement.get();
    }

    /**
     * Executes several statements, all or none: in the caller's transaction, otherwise in one of their own. After a failure the
     * caller's transaction can continue without them.
     */
    public <T> T inOne(Supplier<T> statements) {
        return isActive()
                ? notNull(jdbc.execute((ConnectionCallback<T>) connection -> joinAll(connection, join(), statements)))
                : separately(statements);
    }

    private static <T> T joinAll(Connection connection, BoundTransaction joined, Supplier<T> statements)
            throws SQLException {
        Savepoint before = connection.setSavepoint();
        int actions = joined.actions();
        try {
            T result = statements.get();
            connection.releaseSavepoint(before);
            return result;
        } catch (RuntimeException | Error e) {
            joined.keep(actions);
            try {
                connection.rollback(before);
            } catch (SQLException failure) {
                e.addSuppressed(failure);
            }
            throw e;
        }
    }

    /** Executes several statements as {@link #inOne} does. */
    public void inOne(Runnable statements) {
        inOne(() -> {
            statements.run();
            return true;
        });
    }

    private <T> T separately(Supplier<T> statements) {
        return notNull(separate.execute(status -> statements.get()));
    }

    private static <T> T notNull(@Nullable T result) {
        return Objects.requireNonNull(result);
    }

    /** Runs an action after the commit of the caller's transaction, and not at all after a rollback; now if there is none. */
    public void afterCommit(Runnable action) {
        if (isActive()) {
            join().add(action);
        } else {
            action.run();
        }
    }

    // Checks ------------------------------------------------------------------------------------------------

    /**
     * Rejects a change in a read-only transaction, which the database would reject with an error that names no method and ends the
     * transaction. Rejects one in a transaction that it could not join, because its manager does not tell of the commit. Rejects or
     * reports one in a transaction of another data source, as the settings say.
     *
     * @param call the method of the API, for the message
     */
    public void requireWritable(String call) {
        if (state() == State.SILENT) {
            throw new ForeignTransactionException(
                    ("%s: the call cannot join the open transaction, because its transaction manager tells"
                                    + " nobody of its end (transactionSynchronization=SYNCHRONIZATION_NEVER). Use a transaction manager with the default,"
                                    + " SYNCHRONIZATION_ALWAYS, or call this without a transaction. Nothing was written.")
                            .formatted(call));
        }
        if (isActive()) {
            if (transactions.isReadOnly()) {
                throw new ReadOnlyTransactionException(
                        ("%s: the transaction %sis read-only. Remove readOnly = true from its"
                                        + " @Transactional, or call this from a method with @Transactional(propagation = REQUIRES_NEW).")
                                .formatted(call, name()));
            }
        } else {
            reportForeign(call);
        }
    }

    /** Rejects or reports a call in a transaction of another data source, as the settings say. */
    public void reportForeign(String call) {
        if (foreign == ForeignTransactions.ALLOW || transactions.isActive() || !isForeignActive()) {
            return;
        }
        if (foreign == ForeignTransactions.REFUSE) {
            throw new ForeignTransactionException(
                    ("%s: the transaction %sbelongs to another DataSource than the cluster's, and"
                                    + " forge.cluster.foreign-transactions=refuse. Call it in a transaction of the cluster's"
                                    + " DataSource, after the commit of this one, or without a transaction.")
                            .formatted(call, name()));
        }
        String site = CALL_SITES.first();
        if (site != null) {
            log.warn(
                    "{} at {}: the transaction {}belongs to another DataSource than the cluster's, so the call is committed at"
                            + " once, and stays if that transaction rolls back. Name the transaction manager of the cluster's"
                            + " DataSource in @Transactional, or make the call after the commit. forge.cluster.foreign-transactions=refuse"
                            + " rejects such calls, allow hides this message, which is logged once per place.",
                    call,
                    site,
                    name());
        }
    }

    private static boolean isForeignActive() {
        if (TransactionSynchronizationManager.isSynchronizationActive()) {
            return TransactionSynchronizationManager.isActualTransactionActive()
                    && SpringStack.nearest() != SpringStack.AFTER_COMMIT;
        }
        // Spring tells of the completion of that transaction, or its manager never tells of anything.
        return TransactionSynchronizationManager.getResourceMap().values().stream()
                        .anyMatch(ConnectionHolder.class::isInstance)
                && !SpringStack.isInCallback();
    }

    private static String name() {
        String name = TransactionSynchronizationManager.getCurrentTransactionName();
        return name == null ? "" : "'" + name + "' ";
    }

    /** Notes that the active transaction has work of the cluster, so that its end is known. */
    public BoundTransaction join() {
        BoundTransaction joined = known();
        if (joined == null) {
            // In a callback, a manager that is no bean may have joined the transaction that has ended.
            joined = BoundTransaction.follow(
                    source, Objects.requireNonNull(transactions.bound()), SpringStack.isInCallback());
        }
        joined.join();
        return joined;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ForeignTransactionException;
import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.internal.log.CallSites;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronization;
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

    private static final String AFTER_COMMIT = "invokeAfterCommit";

    /** Methods of Spring: those that begin a transaction, and the one that tells of its commit. */
    private static final Set<String> BEGIN_OR_AFTER_COMMIT = Set.of("invokeWithinTransaction", "execute", AFTER_COMMIT);

    private static final Set<String> END = Set.of("processCommit", "processRollback");

    private final OwnTransactions transactions;
    private final TransactionOperations separate;
    private final JdbcTemplate jdbc;
    private final Key key;
    private final ForeignTransactions foreign;

    /** Binds {@link Joined} to the thread, for all objects of this class on the same data source. */
    private record Key(DataSource source) {}

    /** @param source the data source of the application, or one that no caller has transactions of */
    public CallerTransaction(DataSource source) {
        this.transactions = new OwnTransactions(source);
        this.separate = OwnTransactions.separate(source);
        this.jdbc = new JdbcTemplate(source);
        this.key = new Key(source);
        this.foreign = source instanceof ApplicationDataSource application
                ? application.foreignTransactions()
                : ForeignTransactions.WARN;
    }

    /** Returns whether statements join a transaction of the caller. */
    public boolean isActive() {
        return transactions.isActive() && !isCompleted();
    }

    /** Returns whether the bound transaction has ended, and Spring calls those that wanted to know. */
    private boolean isCompleted() {
        // Before it tells of the completion, Spring ends the synchronization.
        if (!TransactionSynchronizationManager.isSynchronizationActive() || transactions.isAutoCommit()) {
            return true;
        }
        Joined joined = joined();
        return joined == null ? EndedTransactions.contains(transactions.bound()) : joined.committed;
    }

    /** Returns whether a transaction is bound that has ended: statements would not be committed. */
    public boolean hasEnded() {
        return transactions.isActive() && isCompleted() && !isSilent();
    }

    /**
     * Returns whether a transaction is open whose manager never tells of its end (SYNCHRONIZATION_NEVER), so that nothing can be done
     * after its commit. Spring looks the same while it tells of the completion of another one; only the stack shows it.
     */
    private boolean isSilent() {
        return transactions.isActive() && !TransactionSynchronizationManager.isSynchronizationActive() && !isEnding();
    }

    /** Returns whether Spring ends a transaction, and calls this thread's code meanwhile. */
    private static boolean isEnding() {
        return StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(
                        frame -> frame.getClassName().startsWith("org.springframework.transaction.support.")
                                && END.contains(frame.getMethodName())));
    }

    // Statements --------------------------------------------------------------------------------------------

    /** Executes one statement: in the caller's transaction, otherwise committed by itself. */
    public <T> T run(Supplier<T> statement) {
        if (isActive()) {
            join();
            return statement.get();
        }
        // Otherwise Spring has bound a connection whose statements nobody commits, or would bind one for longer.
        return isThreadFree() ? statement.get() : separately(statement);
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

    private static <T> T joinAll(Connection connection, Joined joined, Supplier<T> statements) throws SQLException {
        Savepoint before = connection.setSavepoint();
        int actions = joined.actions.size();
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

    private boolean isThreadFree() {
        return !TransactionSynchronizationManager.isSynchronizationActive() && !transactions.isActive();
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
            join().actions.add(action);
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
        if (isSilent()) {
            throw new ForeignTransactionException(
                    ("%s: the call cannot join the open transaction, because its transaction manager has"
                                    + " transactionSynchronization=SYNCHRONIZATION_NEVER. Use a transaction manager with the default,"
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
            return TransactionSynchronizationManager.isActualTransactionActive() && !isCalledAfterCommit();
        }
        // Spring tells of the completion of that transaction, or its manager never tells of anything.
        return TransactionSynchronizationManager.getResourceMap().values().stream()
                        .anyMatch(ConnectionHolder.class::isInstance)
                && !isEnding();
    }

    /** Returns whether Spring tells of the commit of the transaction that still counts as active. Only the stack shows it. */
    private static boolean isCalledAfterCommit() {
        return StackWalker.getInstance()
                .walk(frames -> frames.filter(
                                frame -> frame.getClassName().startsWith("org.springframework.transaction.")
                                        && BEGIN_OR_AFTER_COMMIT.contains(frame.getMethodName()))
                        .findFirst()
                        .filter(frame -> frame.getMethodName().equals(AFTER_COMMIT))
                        .isPresent());
    }

    private static String name() {
        String name = TransactionSynchronizationManager.getCurrentTransactionName();
        return name == null ? "" : "'" + name + "' ";
    }

    // The end of the caller's transaction -------------------------------------------------------------------

    /** Returns what the bound transaction has joined; null for another one, which a callback of that one has begun. */
    private @Nullable Joined joined() {
        return TransactionSynchronizationManager.getResource(key) instanceof Joined joined
                        && joined.bound == transactions.bound()
                ? joined
                : null;
    }

    /** Notes that the active transaction has work of this object. */
    private Joined join() {
        Joined joined = joined();
        if (joined == null) {
            joined = new Joined(Objects.requireNonNull(transactions.bound()));
            TransactionSynchronizationManager.unbindResourceIfPossible(key);
            TransactionSynchronizationManager.bindResource(key, joined);
            TransactionSynchronizationManager.registerSynchronization(joined);
        }
        return joined;
    }

    /** The caller's transaction, from the first call in it to its end. */
    private final class Joined implements TransactionSynchronization {

        private final List<Runnable> actions = new ArrayList<>();

        /** How many actions there were at each savepoint. */
        private final IdentityHashMap<Object, Integer> savepoints = new IdentityHashMap<>(0);

        private final Object bound;
        private boolean committed;

        Joined(Object bound) {
            this.bound = bound;
        }

        @Override
        public void suspend() {
            unbind();
        }

        private void unbind() {
            if (TransactionSynchronizationManager.getResource(key) == this) {
                TransactionSynchronizationManager.unbindResource(key);
            }
        }

        @Override
        public void resume() {
            TransactionSynchronizationManager.bindResource(key, this);
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

        void keep(int first) {
            actions.subList(first, actions.size()).clear();
        }

        @Override
        public void afterCommit() {
            committed = true;
            actions.forEach(Runnable::run);
        }

        @Override
        public void afterCompletion(int status) {
            unbind();
            if (status == STATUS_COMMITTED && !committed) {
                // The first call was made after the commit, by another object that Spring had called then.
                transactions.commitBound();
                afterCommit();
            }
        }
    }
}

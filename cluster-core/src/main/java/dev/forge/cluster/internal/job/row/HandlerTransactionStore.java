// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.PreparedStatementCallback;
import org.springframework.jdbc.core.StatementCallback;

/** Ends claims with the last statement of their handlers' own transactions. Uses the data source of the application. */
public final class HandlerTransactionStore {

    private static final Logger log = GuardedLogger.of(HandlerTransactionStore.class);

    /** How long the last statement waits for a row that another transaction has locked. */
    private static final Duration LOCK_TIMEOUT = Duration.ofSeconds(5);

    // If the node is cut off before it commits, the row must not stay locked until the network gives up. Part of the
    // condition, because a result costs more than an update count.
    private static final String WITH_IDLE_TIMEOUT =
            "set_config('idle_in_transaction_session_timeout', '5s', true) IS NOT NULL";

    private static final String HELD =
            "j.id = ? AND j.claim_epoch = ? AND %s AND %s".formatted(JobRows.HELD_BY_NODE, WITH_IDLE_TIMEOUT);

    private static final String COMPLETE = JobFinishStore.completing("?", "?") + "WHERE " + HELD;

    // Sent together with the statement after it, so that it costs no round trip. The commit releases it.
    private static final String SAVEPOINT = "SAVEPOINT forge_end";

    private static final String DELETE = SAVEPOINT + "; DELETE FROM ~.forge_jobs j WHERE " + HELD;

    // Statements that the application runs after the last one of the transaction have the lock_timeout that they had
    // before.
    private static final String SETTINGS_OF_MANY = """
            SELECT current_setting('lock_timeout'),
                   CASE WHEN current_setting('lock_timeout')::interval
                            BETWEEN interval '1 millisecond' AND interval '%1$d milliseconds'
                       THEN '' ELSE set_config('lock_timeout', '%1$dms', true) END
            WHERE %2$s
            """.formatted(LOCK_TIMEOUT.toMillis(), WITH_IDLE_TIMEOUT);

    private static final String SETTINGS_AND_SAVEPOINT = SETTINGS_OF_MANY + ";" + SAVEPOINT;

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final CallerTransaction transaction;
    private final JobFinishStore finishes;

    /** @param application the data source of the handlers' transactions */
    public HandlerTransactionStore(Schema schema, DataSource application) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(application);
        this.transaction = new CallerTransaction(application);
        this.finishes = new JobFinishStore(schema, application);
    }

    /** Returns whether statements of this store are part of the current transaction. */
    public boolean joinsTransaction() {
        return transaction.isActive();
    }

    /** Returns the isolation level of the current transaction, as the server names it. */
    public String isolation() {
        return String.valueOf(
                jdbc.queryForObject("SELECT pg_catalog.current_setting('transaction_isolation')", String.class));
    }

    /**
     * Ends a claim with the last statement of the current transaction; returns false if this node no longer holds it. Only the
     * statement that changes the row decides: if the row has ended otherwise, even by this node, the transaction must not commit.
     * A row that the server refuses to delete, because a foreign key of the application references it for example, is left to the
     * clean-up.
     *
     * @throws DataAccessException a {@linkplain DatabaseFailure.Kind#LOCK_TIMEOUT lock timeout} or {@linkplain DatabaseFailure.Kind#STATEMENT_TIMEOUT
     *     timeout} if another transaction has locked the row for too long
     */
    public boolean finish(UUID node, Finish finish) {
        ClaimKey key = finish.key();
        if (finish.isDeletion()) {
            return delete(node, finish);
        }
        if (finish.isPlainCompletion()) {
            return jdbc.update(schema.sql(COMPLETE), statement -> {
                        statement.setString(1, finish.result());
                        statement.setObject(2, finish.ranMillis(), Types.BIGINT);
                        bindHeld(statement, 3, key, node);
                    })
                    == 1;
        }
        // A trigger of this statement may wait for another row.
        return finishAll(node, List.of(finish));
    }

    private boolean delete(UUID node, Finish finish) {
        try {
            return Integer.valueOf(1).equals(jdbc.execute(schema.sql(DELETE), (PreparedStatementCallback<Integer>)
                    statement -> {
                        bindHeld(statement, 1, finish.key(), node);
                        statement.execute();
                        // The first result is the savepoint's.
                        statement.getMoreResults();
                        return statement.getUpdateCount();
                    }));
        } catch (DataAccessException e) {
            rollBackRefusedDeletion(e);
            return finishAll(node, List.of(finish.leftToCleanUp()));
        }
    }

    /** Undoes the deletion of a row that must stay; throws any other failure. */
    private void rollBackRefusedDeletion(DataAccessException failure) {
        if (!DatabaseFailure.kind(failure).isRejection()) {
            throw failure;
        }
        log.debug("A job's row cannot be deleted; it is left to the clean-up", failure);
        jdbc.execute("ROLLBACK TO " + SAVEPOINT);
    }

    /** Binds the parameters of {@link #HELD}, and limits the wait for the row. */
    private static void bindHeld(PreparedStatement statement, int first, ClaimKey key, UUID node) throws SQLException {
        statement.setObject(first, key.id());
        statement.setLong(first + 1, key.epoch());
        statement.setObject(first + 2, node);
        // In the driver, where it costs the server nothing. The transaction may have less time left.
        int limit = statement.getQueryTimeout();
        int longest = (int) LOCK_TIMEOUT.toSeconds();
        statement.setQueryTimeout(limit == 0 ? longest : Math.min(limit, longest));
    }

    /** Ends claims with the last statements of their common transaction; see {@link #finish}. */
    public boolean finishAll(UUID node, List<Finish> all) {
        boolean deletes = all.stream().anyMatch(Finish::isDeletion);
        String lockTimeout = jdbc.execute((StatementCallback<String>) statement -> {
            statement.execute(deletes ? SETTINGS_AND_SAVEPOINT : SETTINGS_OF_MANY);
            try (ResultSet row = statement.getResultSet()) {
                row.next();
                return row.getString(1);
            }
        });
        boolean held;
        try {
            held = finishes.finishInTransaction(node, all);
        } catch (DataAccessException e) {
            if (!deletes) {
                throw e;
            }
            rollBackRefusedDeletion(e);
            held = finishes.finishInTransaction(
                    node, all.stream().map(Finish::leftToCleanUp).toList());
        }
        if (!held) {
            return false;
        }
        jdbc.queryForObject("SELECT set_config('lock_timeout', ?, true)", String.class, lockTimeout);
        return true;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import org.springframework.jdbc.CannotGetJdbcConnectionException;
import org.springframework.transaction.CannotCreateTransactionException;

/** Classifies failed statements by their SQLSTATE. */
public final class StatementFailure {

    private StatementFailure() {}

    /** Returns whether the server cancelled the statement because it took too long. */
    public static boolean isTimeout(Throwable failure) {
        return "57014".equals(SqlState.of(failure));
    }

    /** Returns whether another transaction held a lock for longer than the lock timeout. */
    public static boolean isLocked(Throwable failure) {
        return "55P03".equals(SqlState.of(failure));
    }

    /** Returns whether a transaction did not see what others had committed meanwhile. */
    public static boolean isSerialization(Throwable failure) {
        return "40001".equals(SqlState.of(failure));
    }

    /** Returns whether an earlier error had aborted the transaction. */
    public static boolean isAborted(Throwable failure) {
        return "25P02".equals(SqlState.of(failure));
    }

    /** Returns whether the server rejected the values themselves, so that a repetition fails, too. */
    public static boolean isRejected(Throwable failure) {
        String state = SqlState.of(failure);
        return state != null && (state.startsWith("22") || state.startsWith("23") || state.startsWith("54"));
    }

    /** Returns whether the values of one row were rejected, by the server or by a trigger of the application. */
    public static boolean isRejection(Throwable failure) {
        String state = SqlState.of(failure);
        return isRejected(failure) || (state != null && state.startsWith("P0"));
    }

    /**
     * Returns whether one of the rows may be the cause: rejected values, a trigger of the application, a damaged row. The server has
     * responded, and neither its state nor the schema nor a privilege is the cause, which would affect all rows alike.
     */
    public static boolean isOfRow(Throwable failure) {
        String state = SqlState.of(failure);
        return state != null
                && !state.startsWith("42")
                && !isOfConnection(failure, state)
                && !TransientFailure.caused(failure);
    }

    /**
     * Returns whether one of the rows may be the cause although the SQLSTATE suggests another one: a trigger of the application that
     * uses a missing table for some rows, for example, or a damaged row that the system cannot read. The caller has to find out
     * whether other rows can be written.
     */
    public static boolean isPerhapsOfRow(Throwable failure) {
        String state = SqlState.of(failure);
        return isOfRow(failure)
                || (state != null
                        && (state.startsWith("42") || state.startsWith("55") || state.startsWith("58"))
                        && !isLocked(failure)
                        && !isOfConnection(failure, state));
    }

    /** Returns whether no row was involved: a connection or a transaction could not be opened, or the login was refused. */
    private static boolean isOfConnection(Throwable failure, String state) {
        return state.startsWith("28")
                || state.startsWith("3D")
                || state.startsWith("26")
                || Causes.of(failure).stream()
                        .anyMatch(cause -> cause instanceof CannotGetJdbcConnectionException
                                || cause instanceof CannotCreateTransactionException);
    }
}

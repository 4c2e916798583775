// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;

/**
 * Recognises transactions that failed because of the database and not because of their own statements: a lost connection, a
 * server that shuts down, and a rollback because of another transaction (serialization, deadlock). All other failures inside of a
 * transaction repeat with each attempt, such as a timeout, or a statement after an error that was caught (25P02).
 */
public final class DatabaseFault {

    private static final String ROLLED_BACK = "40";

    private DatabaseFault() {}

    /** Returns whether the database has caused a failure. */
    public static boolean caused(Throwable failure) {
        return ConnectionLoss.caused(failure) || isRolledBackForOthers(failure);
    }

    /** Returns whether the server has rolled a transaction back because of another one, and expects that it is repeated. */
    public static boolean isRolledBackForOthers(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql
                    && sql.getSQLState() != null
                    && sql.getSQLState().startsWith(ROLLED_BACK)) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether the server has responded with an error, so that the transaction is known to be rolled back. */
    public static boolean isAnswered(Throwable failure) {
        return SqlState.of(failure) != null && !ConnectionLoss.caused(failure);
    }
}

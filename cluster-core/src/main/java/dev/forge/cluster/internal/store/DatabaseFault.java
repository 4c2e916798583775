package dev.forge.cluster.internal.store;

import java.sql.SQLException;

/**
 * Tells failures of the database itself from those of the code whose transaction it was: a lost connection, a server that
 * shuts down, and a transaction that was rolled back because of another one (serialization, deadlock). Everything else that
 * goes wrong inside a transaction, such as a statement after an error that was caught (25P02) or a timeout, comes again.
 */
public final class DatabaseFault {

    private static final String ROLLED_BACK = "40";

    private DatabaseFault() {}

    /** Whether the database has caused that failure. */
    public static boolean caused(Throwable failure) {
        if (ConnectionLoss.caused(failure)) {
            return true;
        }
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql
                    && sql.getSQLState() != null
                    && sql.getSQLState().startsWith(ROLLED_BACK)) {
                return true;
            }
        }
        return false;
    }

    /** Whether the server has answered with an error, so that the fate of the transaction is known. */
    public static boolean isAnswered(Throwable failure) {
        return JobStore.state(failure) != null && !ConnectionLoss.caused(failure);
    }
}

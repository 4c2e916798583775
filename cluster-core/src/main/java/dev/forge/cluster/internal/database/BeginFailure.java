// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import java.sql.SQLTransientException;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeoutException;

/**
 * Classifies failures to begin a transaction. A failure of the database server or the network, and an exhausted pool, are
 * temporary. All others repeat with each attempt: a transaction manager that does not support the definition, a closed pool, a
 * rejected password, a bug.
 */
public final class BeginFailure {

    private BeginFailure() {}

    /** Returns whether the same transaction can begin later without a change to the application. */
    public static boolean isTemporary(Throwable failure) {
        // An SQL state is more precise than the type of an exception: a pool that cannot open connections times out as
        // an exhausted one does, with the server's error as the cause.
        return SqlState.of(failure) != null
                ? ServerFailure.caused(failure) || DatabaseFault.caused(failure)
                : Causes.of(failure).stream().anyMatch(BeginFailure::isExhaustedPool);
    }

    /** HikariCP throws an {@link SQLTransientException}; other pools throw, or have as a cause, the other types. */
    private static boolean isExhaustedPool(Throwable cause) {
        return cause instanceof SQLTransientException
                || cause instanceof TimeoutException
                // The wait for a connection was interrupted.
                || cause instanceof InterruptedException
                || (cause instanceof SQLException sql && sql.getCause() instanceof NoSuchElementException)
                || cause.getClass().getSimpleName().equals("PoolExhaustedException")
                || cause.getClass().getName().equals("com.mchange.v2.resourcepool.TimeoutException");
    }
}

package dev.forge.cluster.internal.store;

import java.sql.SQLException;
import java.sql.SQLTransientException;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeoutException;

/**
 * Tells why a transaction could not begin. A failure of the database server, or of the way to it, and an exhausted pool pass by
 * themselves. All else comes again with each attempt: a manager that does not support what is asked of it, a closed pool, a
 * password that the server rejects, a bug.
 */
public final class BeginFailure {

    private BeginFailure() {}

    /** Whether the same transaction can begin later without a change to the application. */
    public static boolean passes(Throwable failure) {
        // An SQL state is more precise than the type of an exception: a pool that cannot open connections times out as
        // an
        // exhausted one does, and names the server's answer as the cause.
        return JobStore.state(failure) != null
                ? ServerFailure.caused(failure) || DatabaseFault.caused(failure)
                : Causes.of(failure).stream().anyMatch(BeginFailure::isExhaustedPool);
    }

    /** HikariCP throws an {@link SQLTransientException}; the others are what further pools throw, or name as the cause. */
    private static boolean isExhaustedPool(Throwable cause) {
        return cause instanceof SQLTransientException
                || cause instanceof TimeoutException
                // Somebody has ended the wait for a connection.
                || cause instanceof InterruptedException
                || (cause instanceof SQLException sql && sql.getCause() instanceof NoSuchElementException)
                || cause.getClass().getSimpleName().equals("PoolExhaustedException")
                || cause.getClass().getName().equals("com.mchange.v2.resourcepool.TimeoutException");
    }
}

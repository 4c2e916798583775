package dev.forge.cluster.internal.store;

import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Tells failures of the server or the way to it, which pass, from those of one row, which come again. */
public final class TransientFailure {

    // Connection, transaction state, rollback, resources, object state, operator, system.
    private static final Set<String> CLASSES = Set.of("08", "25", "40", "53", "55", "57", "58");
    /** Out of memory: a single row that is read alone can be the cause. */
    private static final String OUT_OF_MEMORY = "53200";

    private TransientFailure() {}

    /** Whether something that passes has caused that failure. */
    public static boolean caused(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLTransientConnectionException
                    || (cause instanceof SQLException sql && isTransient(sql.getSQLState()))) {
                return true;
            }
        }
        return false;
    }

    private static boolean isTransient(@Nullable String state) {
        return state != null
                && state.length() == 5
                && !state.equals(OUT_OF_MEMORY)
                && CLASSES.contains(state.substring(0, 2));
    }
}

package dev.forge.cluster.internal.store;

import java.sql.SQLException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Tells a server that fails everybody's statements (out of reach, shutting down, read-only, out of disk space or
 * connections) from a failure of one statement. The former passes without a change to whatever ran the statement.
 */
public final class ServerFailure {

    /** read_only_sql_transaction: a standby, or a database whose default is read-only. */
    private static final String READ_ONLY = "25006";
    // insufficient_resources, disk_full, too_many_connections, configuration_limit_exceeded. Not out_of_memory: a
    // single
    // large row is enough for that.
    private static final Set<String> OUT_OF_RESOURCES = Set.of("53000", "53100", "53300", "53400");
    // system_error, io_error, undefined_file, duplicate_file
    private static final String SYSTEM = "58";

    private ServerFailure() {}

    /** Whether the state of the server, or the way to it, has caused that failure. */
    public static boolean caused(Throwable failure) {
        return ConnectionLoss.caused(failure) || refusedWrites(failure);
    }

    /** Whether a server that can be reached refused to write, and would refuse everybody. */
    public static boolean refusedWrites(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && isRefusal(sql.getSQLState())) {
                return true;
            }
        }
        return false;
    }

    /** Whether the session is read-only, perhaps for good: a new one may not be. */
    static boolean isReadOnly(SQLException failure) {
        return READ_ONLY.equals(failure.getSQLState());
    }

    /** What the driver or the server said about it, in one line. */
    public static String brief(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && isRefusal(sql.getSQLState())) {
                return ConnectionLoss.brief(sql);
            }
        }
        return ConnectionLoss.brief(failure);
    }

    private static boolean isRefusal(@Nullable String state) {
        return state != null
                && (state.equals(READ_ONLY) || OUT_OF_RESOURCES.contains(state) || state.startsWith(SYSTEM));
    }
}

package dev.forge.cluster.internal.store;

import java.sql.SQLException;
import java.util.Set;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * Tells a server that fails everybody's statements (out of reach, shutting down, read-only, out of disk space or
 * connections) from a failure of one statement. The former passes without a change to whatever ran the statement.
 */
public final class ServerFailure {

    /** read_only_sql_transaction: a standby, or a database whose default is read-only. */
    private static final String READ_ONLY = "25006";
    // insufficient_resources, disk_full, too_many_connections, configuration_limit_exceeded
    private static final Set<String> OUT_OF_RESOURCES = Set.of("53000", "53100", "53300", "53400");
    /** out_of_memory: of one session, for which a single large row is enough, or of the lock table, which all sessions share. */
    private static final String OUT_OF_MEMORY = "53200";
    /** Which one it was is said by the place in the server's source; the message may be in any language. */
    private static final Set<String> LOCK_TABLES = Set.of("lock.c", "predicate.c");
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
            if (cause instanceof SQLException sql && isRefusal(sql)) {
                return true;
            }
        }
        return false;
    }

    /** Whether the session is read-only, perhaps for good: a new one may not be. */
    public static boolean isReadOnly(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && READ_ONLY.equals(sql.getSQLState())) {
                return true;
            }
        }
        return false;
    }

    /** What the driver or the server said about it, in one line. */
    public static String brief(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && isRefusal(sql)) {
                return ConnectionLoss.brief(sql);
            }
        }
        return ConnectionLoss.brief(failure);
    }

    private static boolean isRefusal(SQLException failure) {
        String state = failure.getSQLState();
        return state != null
                && (state.equals(READ_ONLY)
                        || OUT_OF_RESOURCES.contains(state)
                        || state.startsWith(SYSTEM)
                        || isOutOfLocks(failure));
    }

    /** Whether the server's lock table is full. Any role can fill it, with advisory locks. */
    static boolean isOutOfLocks(SQLException failure) {
        if (!OUT_OF_MEMORY.equals(failure.getSQLState()) || !(failure instanceof PSQLException refusal)) {
            return false;
        }
        ServerErrorMessage message = refusal.getServerErrorMessage();
        String file = message == null ? null : message.getFile();
        return file != null && LOCK_TABLES.contains(file);
    }
}

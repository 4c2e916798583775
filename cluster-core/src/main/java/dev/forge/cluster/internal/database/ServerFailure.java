// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import java.util.Set;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * Recognises failures of a server that fails the statements of all clients: unreachable, shutting down, read-only, out of disk
 * space or connections. They are temporary, and the statement need not change.
 */
public final class ServerFailure {

    /** read_only_sql_transaction: a standby, or a database whose default is read-only. */
    private static final String READ_ONLY = "25006";
    // insufficient_resources, disk_full, too_many_connections, configuration_limit_exceeded
    private static final Set<String> OUT_OF_RESOURCES = Set.of("53000", "53100", "53300", "53400");
    /** out_of_memory, of one session (a single large row can cause that) or of the lock table that all sessions share. */
    private static final String OUT_OF_MEMORY = "53200";
    /** Files of the server's source that report a full lock table; the message may be in any language. */
    private static final Set<String> LOCK_TABLES = Set.of("lock.c", "predicate.c");
    // system_error, io_error, undefined_file, duplicate_file
    private static final String SYSTEM = "58";

    private ServerFailure() {}

    /** Returns whether the state of the server or the network has caused a failure. */
    public static boolean caused(Throwable failure) {
        return ConnectionLoss.caused(failure) || refusedWrites(failure);
    }

    /** Returns whether a reachable server refused to write, and would refuse the writes of all clients. */
    public static boolean refusedWrites(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && isRefusal(sql)) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether the session is read-only; a new session may not be. */
    public static boolean isReadOnly(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && READ_ONLY.equals(sql.getSQLState())) {
                return true;
            }
        }
        return false;
    }

    /** Returns the message of the driver or the server in one line. */
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

    /** Returns whether the server's lock table is full, which any role can fill with advisory locks. */
    static boolean isOutOfLocks(SQLException failure) {
        if (!OUT_OF_MEMORY.equals(failure.getSQLState()) || !(failure instanceof PSQLException refusal)) {
            return false;
        }
        ServerErrorMessage message = refusal.getServerErrorMessage();
        String file = message == null ? null : message.getFile();
        return file != null && LOCK_TABLES.contains(file);
    }

    /** Returns the SQLSTATE of a failure, and the table and the constraint that it names; never values. */
    public static String names(Throwable failure) {
        var names = new StringBuilder("SQLSTATE ").append(SqlState.of(failure));
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof PSQLException refusal && refusal.getServerErrorMessage() != null) {
                ServerErrorMessage message = refusal.getServerErrorMessage();
                if (message.getConstraint() != null) {
                    names.append(", constraint ").append(message.getConstraint());
                }
                if (message.getTable() != null) {
                    names.append(" of table ")
                            .append(message.getSchema())
                            .append('.')
                            .append(message.getTable());
                }
            }
        }
        return names.toString();
    }
}

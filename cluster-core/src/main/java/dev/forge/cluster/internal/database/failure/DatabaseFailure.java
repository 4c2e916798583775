// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.failure;

import java.sql.SQLException;
import java.sql.SQLTransientException;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;
import org.springframework.jdbc.CannotGetJdbcConnectionException;
import org.springframework.transaction.CannotCreateTransactionException;

/**
 * Classifies failures of the database, however Spring or an application has wrapped them. Callers compare or switch over the
 * {@link Kind}; where two of them treat one kind differently, their own switches say so.
 */
public final class DatabaseFailure {

    private static final int LONGEST_BRIEF = 300;

    /** Files of the server's source that report a full lock table; the message may be in any language. */
    private static final Set<String> LOCK_TABLES = Set.of("lock.c", "predicate.c");

    private DatabaseFailure() {}

    /** What a failure means, and so whether and how to try again. */
    public enum Kind {
        /** The server is unreachable or shuts down; a statement that was sent may have been executed. */
        CONNECTION_LOST,
        /** A standby, or a session that is read-only by default; a new session may not be. */
        READ_ONLY,
        /** The server has no disk space, connections or locks left for anyone. */
        OUT_OF_RESOURCES,
        /** The server's operating system failed: for all statements, or for the damaged file that one row needs. */
        SYSTEM_ERROR,
        /** The transaction did not see what others had committed meanwhile. */
        SERIALIZATION,
        /** The transaction was rolled back because of another one in any other way. */
        DEADLOCK,
        /** Another transaction held a lock for longer than the lock timeout. */
        LOCK_TIMEOUT,
        /** The server cancelled the statement because it took too long. */
        STATEMENT_TIMEOUT,
        /** An object is not in the state that the statement needs; it may be a damaged index that one row needs. */
        OBJECT_STATE,
        /** An earlier error, which was caught, had aborted the transaction. */
        ABORTED,
        /** The session or its transaction cannot run the statement, or an operator has intervened. */
        SESSION_STATE,
        /** The pool had no connection in time. */
        POOL_EXHAUSTED,
        /** The server refused the connection, or its login, or knows nothing of the session: no row was involved. */
        REFUSED,
        /** The server rejected the values themselves. */
        REJECTED,
        /** A trigger or function of the application raised an error. */
        RAISED,
        /** A missing object: in the schema, or in a trigger of the application that runs for some rows. */
        SCHEMA,
        /** A missing privilege, likewise. */
        FORBIDDEN,
        /** Any other error of the server, which one row may have caused: damage, or too little memory for a large row. */
        OTHER,
        /** Not a response of the database: a bug, for example. */
        NONE;

        /** Returns whether the statements of all clients fail, so that neither row nor statement is the cause. */
        public boolean isOfServer() {
            return this == CONNECTION_LOST || refusesWrites();
        }

        /** Returns whether a reachable server would refuse the writes of all clients. */
        public boolean refusesWrites() {
            return this == READ_ONLY || this == OUT_OF_RESOURCES || this == SYSTEM_ERROR;
        }

        /** Returns whether the server rolled a transaction back because of another one, and expects that it is repeated. */
        public boolean isConflict() {
            return this == SERIALIZATION || this == DEADLOCK;
        }

        /** Returns whether the server has responded with an error, so that the transaction is known to be rolled back. */
        public boolean isAnswered() {
            return this != CONNECTION_LOST && this != POOL_EXHAUSTED && this != NONE;
        }

        /** Returns whether a transaction that could not begin can begin later without a change to the application. */
        public boolean canBeginLater() {
            return isOfServer() || isConflict() || this == POOL_EXHAUSTED;
        }

        /** Returns whether the same statement may succeed later because something else than its rows has changed. */
        public boolean isTransient() {
            return switch (this) {
                case CONNECTION_LOST,
                        READ_ONLY,
                        OUT_OF_RESOURCES,
                        SYSTEM_ERROR,
                        SERIALIZATION,
                        DEADLOCK,
                        LOCK_TIMEOUT,
                        STATEMENT_TIMEOUT,
                        OBJECT_STATE,
                        ABORTED,
                        SESSION_STATE,
                        POOL_EXHAUSTED,
                        REFUSED -> true;
                case REJECTED, RAISED, SCHEMA, FORBIDDEN, OTHER, NONE -> false;
            };
        }

        /** Returns whether the values themselves were rejected, by the server or by a trigger of the application. */
        public boolean isRejection() {
            return this == REJECTED || this == RAISED;
        }

        /** Returns whether one of the rows is the cause: rejected values, a trigger of the application, a damaged row. */
        public boolean isOfRow() {
            return this == REJECTED || this == RAISED || this == OTHER;
        }

        /**
         * Returns whether one of the rows may be the cause although the error suggests another one, such as a trigger that uses a
         * missing table for some rows. The caller has to find out whether other rows can be written.
         */
        public boolean isPerhapsOfRow() {
            return isOfRow() || this == SCHEMA || this == FORBIDDEN || this == OBJECT_STATE || this == SYSTEM_ERROR;
        }
    }

    /**
     * Returns the kind of a failure. The outermost SQLSTATE decides, unless a failed server or a conflict is found deeper: an aborted
     * transaction has its first error as the cause.
     */
    public static Kind kind(Throwable failure) {
        List<Throwable> causes = Causes.of(failure);
        SQLException deciding = deciding(causes);
        if (deciding == null) {
            return causes.stream().anyMatch(DatabaseFailure::isExhaustedPool) ? Kind.POOL_EXHAUSTED : Kind.NONE;
        }
        boolean opening = causes.stream()
                .anyMatch(cause -> cause instanceof CannotGetJdbcConnectionException
                        || cause instanceof CannotCreateTransactionException);
        Kind kind = kind(deciding);
        return opening ? whileOpening(kind) : kind;
    }

    /** Returns the outermost SQLSTATE; null if there is none. */
    public static @Nullable String state(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return null;
    }

    /** Returns the message of the driver or the server in one line if the server has failed; otherwise the failure as text. */
    public static String brief(Throwable failure) {
        SQLException deciding = deciding(Causes.of(failure));
        String text = String.valueOf(deciding != null && kind(deciding).isOfServer() ? deciding.getMessage() : failure);
        String line = text.lines().findFirst().orElse("");
        return line.length() <= LONGEST_BRIEF ? line : line.substring(0, LONGEST_BRIEF) + "...";
    }

    /** Returns the SQLSTATE of a failure, and the table and the constraint that it names; never values. */
    public static String names(Throwable failure) {
        var names = new StringBuilder("SQLSTATE ").append(state(failure));
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

    private static @Nullable SQLException deciding(List<Throwable> causes) {
        @Nullable SQLException outermost = null;
        for (Throwable cause : causes) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                Kind kind = kind(sql);
                if (kind.isOfServer() || kind.isConflict()) {
                    return sql;
                }
                outermost = outermost == null ? sql : outermost;
            }
        }
        return outermost;
    }

    private static Kind kind(SQLException failure) {
        Kind kind = ofState(failure.getSQLState());
        return kind == Kind.OTHER && isLockTableFull(failure) ? Kind.OUT_OF_RESOURCES : kind;
    }

    /** The one table of SQLSTATEs: a few states, and for all others their class. */
    static Kind ofState(String state) {
        if (state.length() != 5) {
            return Kind.OTHER;
        }
        return switch (state) {
            case "25006" -> Kind.READ_ONLY;
            case "25P02" -> Kind.ABORTED;
            case "40001" -> Kind.SERIALIZATION;
            case "42501" -> Kind.FORBIDDEN;
            // Of one session: a single large row can be the cause.
            case "53200" -> Kind.OTHER;
            case "55P03" -> Kind.LOCK_TIMEOUT;
            case "57014" -> Kind.STATEMENT_TIMEOUT;
            // admin_shutdown, crash_shutdown, cannot_connect_now
            case "57P01", "57P02", "57P03" -> Kind.CONNECTION_LOST;
            default -> ofClass(state.substring(0, 2));
        };
    }

    private static Kind ofClass(String stateClass) {
        return switch (stateClass) {
            case "08" -> Kind.CONNECTION_LOST;
            case "22", "23", "54" -> Kind.REJECTED;
            case "25", "57" -> Kind.SESSION_STATE;
            // An unknown prepared statement, an invalid login, an unknown database.
            case "26", "28", "3D" -> Kind.REFUSED;
            case "40" -> Kind.DEADLOCK;
            case "42" -> Kind.SCHEMA;
            case "53" -> Kind.OUT_OF_RESOURCES;
            case "55" -> Kind.OBJECT_STATE;
            case "58" -> Kind.SYSTEM_ERROR;
            case "P0" -> Kind.RAISED;
            default -> Kind.OTHER;
        };
    }

    /** Returns what a failure means if no connection or transaction could be opened, so that no row was involved. */
    private static Kind whileOpening(Kind kind) {
        return switch (kind) {
            case REJECTED, RAISED, SCHEMA, FORBIDDEN, OTHER, OBJECT_STATE -> Kind.REFUSED;
            case SYSTEM_ERROR -> Kind.OUT_OF_RESOURCES;
            case CONNECTION_LOST,
                    READ_ONLY,
                    OUT_OF_RESOURCES,
                    SERIALIZATION,
                    DEADLOCK,
                    LOCK_TIMEOUT,
                    STATEMENT_TIMEOUT,
                    ABORTED,
                    SESSION_STATE,
                    POOL_EXHAUSTED,
                    REFUSED,
                    NONE -> kind;
        };
    }

    /** Returns whether the server's lock table is full, which any role can fill with advisory locks. */
    private static boolean isLockTableFull(SQLException failure) {
        ServerErrorMessage message = failure instanceof PSQLException refusal ? refusal.getServerErrorMessage() : null;
        String file = message == null ? null : message.getFile();
        return "53200".equals(failure.getSQLState()) && file != null && LOCK_TABLES.contains(file);
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

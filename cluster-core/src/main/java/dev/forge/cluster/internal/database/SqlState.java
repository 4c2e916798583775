package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** Reads SQLSTATE codes from failures that Spring or an application may have wrapped. */
public final class SqlState {

    private static final int MOST_CAUSES = 20;

    private SqlState() {}

    /** Returns the first SQLSTATE among a failure and its causes; null if there is none. */
    public static @Nullable String of(Throwable failure) {
        Throwable cause = failure;
        for (int depth = 0; cause != null && depth < MOST_CAUSES; depth++, cause = cause.getCause()) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return null;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Recognises failures because the database is unreachable or shuts down. They are temporary, and their stack trace has no useful
 * information.
 */
public final class ConnectionLoss {

    private static final String CONNECTION_EXCEPTION = "08";
    // admin_shutdown, crash_shutdown, cannot_connect_now
    private static final Set<String> SERVER_SHUTS_DOWN = Set.of("57P01", "57P02", "57P03");
    private static final int LONGEST = 300;

    private ConnectionLoss() {}

    /** Returns whether a lost connection has caused a failure. */
    public static boolean caused(Throwable failure) {
        return cause(failure) != null;
    }

    /** Returns the message of the driver or the server in one line; the failure as text if it is of another kind. */
    public static String brief(Throwable failure) {
        SQLException cause = cause(failure);
        String text = String.valueOf(cause != null ? cause.getMessage() : failure);
        String line = text.lines().findFirst().orElse("");
        return line.length() <= LONGEST ? line : line.substring(0, LONGEST) + "...";
    }

    private static @Nullable SQLException cause(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && isLoss(sql.getSQLState())) {
                return sql;
            }
        }
        return null;
    }

    private static boolean isLoss(@Nullable String state) {
        return state != null && (state.startsWith(CONNECTION_EXCEPTION) || SERVER_SHUTS_DOWN.contains(state));
    }
}

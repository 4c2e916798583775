// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** Reads SQLSTATE codes from failures that Spring or an application may have wrapped. */
public final class SqlState {

    private SqlState() {}

    /** Returns the first SQLSTATE among a failure and its causes; null if there is none. */
    public static @Nullable String of(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return null;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Recognises temporary failures of the server or the network; failures because of one row repeat with each attempt. */
public final class TransientFailure {

    // Connection, transaction state, rollback, resources, object state, operator intervention, system.
    private static final Set<String> CLASSES = Set.of("08", "25", "40", "53", "55", "57", "58");
    /** out_of_memory: a single large row can be the cause. */
    private static final String OUT_OF_MEMORY = "53200";

    private TransientFailure() {}

    /** Returns whether a temporary failure is the cause. */
    public static boolean caused(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLTransientConnectionException
                    || (cause instanceof SQLException sql
                            && (isTransient(sql.getSQLState()) || ServerFailure.isOutOfLocks(sql)))) {
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

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

/**
 * Counts, for each thread, its statements on {@link ControlConnections} that have succeeded. Code that runs something on its own
 * thread can tell from it whether this has reached the database.
 */
public final class DatabaseAnswers {

    private static final ThreadLocal<long[]> COUNT = ThreadLocal.withInitial(() -> new long[1]);

    private DatabaseAnswers() {}

    /** Returns how many statements of this thread have succeeded until now. */
    public static long toThisThread() {
        return COUNT.get()[0];
    }

    static void received() {
        COUNT.get()[0]++;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.function.Supplier;

/** Runs short statements on threads that may be interrupted: an interrupted thread gets no connection. */
public final class Uninterrupted {

    private Uninterrupted() {}

    /** Calls the statement without the interrupt flag of the calling thread, and sets the flag again afterwards. */
    public static <T> T call(Supplier<T> statement) {
        boolean interrupted = Thread.interrupted();
        try {
            return statement.get();
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}

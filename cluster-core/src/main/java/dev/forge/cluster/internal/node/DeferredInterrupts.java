// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;

/**
 * Runs actions that wait and write, such as leaving the cluster, although their thread is interrupted. The interrupt ends the
 * waiting but not the writing: jobs are returned and the node is deregistered all the same. The thread is interrupted again when
 * its action has ended.
 */
final class DeferredInterrupts {

    private final Set<Thread> interrupted = ConcurrentHashMap.newKeySet();

    boolean run(BooleanSupplier action) {
        absorb();
        try {
            return action.getAsBoolean();
        } finally {
            absorb();
            if (interrupted.remove(Thread.currentThread())) {
                Thread.currentThread().interrupt();
            }
        }
    }

    void run(Runnable action) {
        run(() -> {
            action.run();
            return true;
        });
    }

    /** Clears the interrupt flag of the calling thread, if it is set, and remembers that. */
    void absorb() {
        if (Thread.interrupted()) {
            defer();
        }
    }

    /** Remembers that the calling thread was interrupted. */
    void defer() {
        interrupted.add(Thread.currentThread());
    }

    /** Returns whether the calling thread was interrupted since its action began, and must not wait. */
    boolean isInterrupted() {
        return interrupted.contains(Thread.currentThread());
    }
}

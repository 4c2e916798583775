// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import java.util.function.BooleanSupplier;

/** Whether any job may wait for others: true for too long, never false while this node could know of one. */
final class PossibleWaiters {

    private volatile boolean possible;
    private long begun;

    boolean possible() {
        return possible;
    }

    /** Some job has begun to wait. */
    synchronized void begun() {
        begun++;
        possible = true;
    }

    /** Reads whether any job waits. A job that begins to wait meanwhile may be missing in the answer. */
    void refresh(BooleanSupplier exist) {
        long before = counted();
        boolean waits = exist.getAsBoolean();
        decide(waits, before);
    }

    private synchronized long counted() {
        return begun;
    }

    private synchronized void decide(boolean waits, long before) {
        possible = waits || begun != before;
    }
}

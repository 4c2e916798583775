// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Bounds what readers take from the application: each waits for its turn, and gives up if it does not come soon. */
public final class ReadPermits {

    /** How many further calls may wait: each has a thread of the web server. */
    private static final int MOST_WAITING = 8;

    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final Semaphore permits;

    /** @param concurrent how many may read at a time */
    public ReadPermits(int concurrent) {
        this.permits = new Semaphore(concurrent, true);
    }

    /** Reads, if a permit becomes free in time. */
    public OperationResult read(Supplier<OperationResult> read) {
        try {
            if (permits.getQueueLength() >= MOST_WAITING
                    || !permits.tryAcquire(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                return new OperationResult.Busy("Too many requests read at the same time. Try again later.");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while waiting to read", e);
        }
        try {
            return read.get();
        } finally {
            permits.release();
        }
    }
}

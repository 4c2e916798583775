// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/** Waits for a given time, in handlers that simulate work and between measurements. */
public final class Pause {

    private Pause() {}

    public static void millis(long millis) {
        long end = System.nanoTime() + Duration.ofMillis(millis).toNanos();
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}

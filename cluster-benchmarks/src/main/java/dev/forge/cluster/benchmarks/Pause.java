package dev.forge.cluster.benchmarks;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/** What a handler does that works for a while, and what passes between two measurements. */
final class Pause {

    private Pause() {}

    static void millis(long millis) {
        long end = System.nanoTime() + Duration.ofMillis(millis).toNanos();
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}

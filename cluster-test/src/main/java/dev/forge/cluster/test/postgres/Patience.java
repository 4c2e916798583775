// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** Waits for what other threads or processes do. */
public final class Patience {

    private static final Duration POLL = Duration.ofMillis(20);

    private Patience() {}

    /**
     * Repeats an assertion until it passes. One that throws an exception, such as that of a database or an HTTP client, is repeated,
     * too.
     *
     * @throws AssertionError if the assertion still fails after that time; its cause is the last failure
     */
    public static void eventually(Duration patience, Runnable assertion) {
        long deadline = System.nanoTime() + patience.toNanos();
        while (true) {
            try {
                assertion.run();
                return;
            } catch (AssertionError | RuntimeException e) {
                if (System.nanoTime() - deadline >= 0) {
                    throw new AssertionError("Still failing after %s: %s".formatted(patience, e.getMessage()), e);
                }
            }
            pause(POLL);
        }
    }

    public static void pause(Duration duration) {
        try {
            TimeUnit.NANOSECONDS.sleep(duration.toNanos());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
    }
}

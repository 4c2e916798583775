// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import org.springframework.core.env.Environment;

/**
 * Keeps the JVM of a node alive: all other threads of the cluster are daemon threads, and without a web server the JVM would exit
 * after the main method. An explicit {@code spring.main.keep-alive=false} disables it.
 */
final class KeepAliveThread {

    private final boolean enabled;
    private @Nullable CountDownLatch stopped;

    KeepAliveThread(Environment environment) {
        this.enabled = environment.getProperty("spring.main.keep-alive", Boolean.class, true);
    }

    synchronized void start() {
        if (!enabled || stopped != null) {
            return;
        }
        var latch = new CountDownLatch(1);
        var thread = new Thread(() -> await(latch), "forge-cluster-keep-alive");
        thread.setDaemon(false);
        thread.start();
        stopped = latch;
    }

    synchronized void stop() {
        if (stopped != null) {
            stopped.countDown();
            stopped = null;
        }
    }

    private static void await(CountDownLatch latch) {
        boolean interrupted = true;
        while (interrupted) {
            try {
                latch.await();
                interrupted = false;
            } catch (InterruptedException e) {
                // Only stop() ends this thread.
            }
        }
    }
}

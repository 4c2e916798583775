// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Waits between two looks at something that changes in the database and cannot signal this process. */
public final class Pause {

    private Pause() {}

    /** Waits for that long, unless the thread is interrupted. */
    public static void of(Duration duration) throws InterruptedException {
        new CountDownLatch(1).await(duration.toNanos(), TimeUnit.NANOSECONDS);
    }
}

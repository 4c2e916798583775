// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/** Generates ids in ascending order, like those of Forge Cluster, so that scattered index entries do not slow down raw SQL. */
public final class Ids {

    private static final AtomicLong NEXT = new AtomicLong(System.currentTimeMillis() << 20);

    private Ids() {}

    public static UUID next() {
        return new UUID(NEXT.incrementAndGet(), ThreadLocalRandom.current().nextLong());
    }

    public static UUID[] next(int count) {
        UUID[] ids = new UUID[count];
        for (int i = 0; i < count; i++) {
            ids[i] = next();
        }
        return ids;
    }
}

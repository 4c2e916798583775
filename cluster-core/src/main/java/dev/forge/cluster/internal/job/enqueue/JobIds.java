// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import java.time.InstantSource;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Generates UUIDs of version 7. They begin with the time, so that new rows share the last pages of the index, and increase within
 * this process; no code relies on their order across processes. The other 62 bits come from a secure source: clients see ids, and
 * an id must not reveal the next one.
 */
public final class JobIds {

    private static final int COUNTER_BITS = 12;
    private static final long VERSION = 7L << COUNTER_BITS;
    private static final long VARIANT = 1L << 63;

    private final InstantSource clock;
    private final SecureLongs random = new SecureLongs();
    private final AtomicLong last = new AtomicLong();

    public JobIds(InstantSource clock) {
        this.clock = clock;
    }

    /** Returns an id that is larger than all earlier ones of this generator. */
    public UUID next() {
        // Milliseconds and a counter in one number: if the counter overflows, the milliseconds run ahead a little.
        long now = clock.millis() << COUNTER_BITS;
        long stamp = last.updateAndGet(former -> Math.max(former + 1, now));
        long counter = stamp & ((1L << COUNTER_BITS) - 1);
        long high = ((stamp >>> COUNTER_BITS) << 16) | VERSION | counter;
        return new UUID(high, VARIANT | (random.next() >>> 2));
    }
}

package dev.forge.cluster.internal.engine;

import java.time.InstantSource;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;

/**
 * Ids of version 7: the time in front, so that new rows meet in the same pages of the index. Growing within this process;
 * elsewhere nobody relies on their order.
 */
final class JobIds {

    private static final int COUNTER_BITS = 12;
    private static final long VERSION = 7L << COUNTER_BITS;
    private static final long VARIANT = 1L << 63;

    private final InstantSource clock;
    private final RandomGenerator random;
    private final AtomicLong last = new AtomicLong();

    JobIds(InstantSource clock, RandomGenerator random) {
        this.clock = clock;
        this.random = random;
    }

    UUID next() {
        // Milliseconds and a counter in one number: when the counter runs over, the milliseconds run ahead a little.
        long now = clock.millis() << COUNTER_BITS;
        long stamp = last.updateAndGet(former -> Math.max(former + 1, now));
        long counter = stamp & ((1L << COUNTER_BITS) - 1);
        long high = ((stamp >>> COUNTER_BITS) << 16) | VERSION | counter;
        return new UUID(high, VARIANT | (random.nextLong() >>> 2));
    }
}

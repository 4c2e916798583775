package dev.forge.cluster.internal.job;

import java.time.InstantSource;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Ids of version 7: the time in front, so that new rows meet in the same pages of the index. Growing within this process;
 * elsewhere nobody relies on their order. The other 62 bits come from a secure source: clients see ids, and one must not
 * reveal the next.
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

    public UUID next() {
        // Milliseconds and a counter in one number: when the counter runs over, the milliseconds run ahead a little.
        long now = clock.millis() << COUNTER_BITS;
        long stamp = last.updateAndGet(former -> Math.max(former + 1, now));
        long counter = stamp & ((1L << COUNTER_BITS) - 1);
        long high = ((stamp >>> COUNTER_BITS) << 16) | VERSION | counter;
        return new UUID(high, VARIANT | (random.next() >>> 2));
    }
}

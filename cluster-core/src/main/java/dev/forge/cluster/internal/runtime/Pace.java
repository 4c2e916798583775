// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * Paces work that every node repeats. Beyond ten live nodes pauses grow with the number of nodes, so that a large cluster queries
 * the database no more often than a small one. Random jitter keeps nodes from querying in step.
 */
public final class Pace {

    private static final int NODES_WITHOUT_STRETCH = 10;
    private static final double JITTER = 0.2;

    private final LongSupplier nanos;
    private final RandomGenerator random;
    private volatile int liveNodes = 1;

    public Pace(LongSupplier nanos, RandomGenerator random) {
        this.nanos = nanos;
        this.random = random;
    }

    /** Returns the monotonic time of this process, which cannot be compared with that of others. */
    public long nanos() {
        return nanos.getAsLong();
    }

    public void liveNodes(int count) {
        liveNodes = Math.max(1, count);
    }

    /** Returns a pause of about that length, longer in a large cluster. */
    public Duration stretched(Duration pause) {
        return times(pause, 1 + JITTER * (2 * random.nextDouble() - 1));
    }

    /** Returns the longest pause that {@link #stretched} may return now. */
    public Duration longest(Duration pause) {
        return times(pause, 1 + JITTER);
    }

    private Duration times(Duration pause, double jitter) {
        double stretch = Math.max(1.0, (double) liveNodes / NODES_WITHOUT_STRETCH);
        return Duration.ofNanos((long) (pause.toNanos() * stretch * jitter));
    }
}

package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * Time and chance for whatever is done again and again by every node. Past ten live nodes pauses grow with their number,
 * so that a large cluster asks the database no more often than a small one; chance keeps nodes from asking in step.
 */
public final class Pace {

    private static final int NODES_WITHOUT_STRETCH = 10;
    private static final double JITTER = 0.2;

    public final LongSupplier nanos;
    private final RandomGenerator random;
    public volatile int liveNodes = 1;

    public Pace(LongSupplier nanos, RandomGenerator random) {
        this.nanos = nanos;
        this.random = random;
    }

    /** Monotonic; says nothing about any other machine. */
    public long nanos() {
        return nanos.getAsLong();
    }

    public void liveNodes(int count) {
        liveNodes = Math.max(1, count);
    }

    /** A pause of about that length, longer in a large cluster. */
    public Duration stretched(Duration pause) {
        return times(pause, 1 + JITTER * (2 * random.nextDouble() - 1));
    }

    /** The longest that {@link #stretched} may answer now. */
    public Duration longest(Duration pause) {
        return times(pause, 1 + JITTER);
    }

    private Duration times(Duration pause, double jitter) {
        double stretch = Math.max(1.0, (double) liveNodes / NODES_WITHOUT_STRETCH);
        return Duration.ofNanos((long) (pause.toNanos() * stretch * jitter));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.test.postgres.MovableTime;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.function.Consumer;

/**
 * The time of a test: that of the cluster's statements, of {@code now()} in statements of the application, and of its {@link Clock}
 * beans. It stands still until the test moves it, except in mode LIVE, where it runs.
 */
public final class TestClock extends Clock {

    /** The last instant that nanoseconds since 1970 can express. */
    private static final Instant LAST = Instant.parse("2262-01-01T00:00:00Z");

    /** The cluster's own statements regard earlier times as "never". */
    private static final Instant FIRST = Instant.parse("2000-01-01T00:00:00Z");

    private final MovableTime time;
    private final Consumer<Duration> mover;
    private final ZoneId zone;

    TestClock(MovableTime time, Consumer<Duration> mover) {
        this(time, mover, ZoneOffset.UTC);
    }

    private TestClock(MovableTime time, Consumer<Duration> mover, ZoneId zone) {
        this.time = time;
        this.mover = mover;
        this.zone = zone;
    }

    static void requirePossible(Instant instant) {
        if (instant.isBefore(FIRST) || !instant.isBefore(LAST)) {
            throw new IllegalArgumentException(
                    "The time of a test must not lie before %s, and must lie before %s, unlike %s"
                            .formatted(FIRST, LAST, instant));
        }
    }

    /**
     * Moves the time on. In mode MANUAL what has become due runs with {@link ClusterTester#runAllDue()}, in the other modes at once.
     *
     * @throws IllegalArgumentException if the duration is negative: what has happened would lie in the future
     */
    public void advance(Duration duration) {
        if (duration.isNegative()) {
            throw new IllegalArgumentException(
                    "The time of a test cannot be moved back (%s). To begin at an earlier time, call ClusterTester.beginAt first."
                            .formatted(duration));
        }
        requirePossible(instant().plus(duration));
        mover.accept(duration);
    }

    /** Moves the time on to an instant. */
    public void setTo(Instant instant) {
        advance(Duration.between(instant(), instant));
    }

    @Override
    public Instant instant() {
        return time.now();
    }

    @Override
    public ZoneId getZone() {
        return zone;
    }

    @Override
    public TestClock withZone(ZoneId other) {
        return new TestClock(time, mover, other);
    }

    @Override
    public String toString() {
        return "TestClock[%s]".formatted(instant());
    }
}

package dev.forge.cluster.ratelimit;

import java.time.Duration;

/**
 * How many calls are admitted: a bucket that holds {@code burst} tokens, from which each call takes one, and into which
 * {@code requests} flow {@code per} time, evenly.
 *
 * @param requests how many flow in per that time
 * @param per that time
 * @param burst how many there are at most, hence how many calls are admitted at once after a quiet time
 */
public record RateLimit(long requests, Duration per, long burst) {

    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(366);
    private static final long MOST = 1_000_000_000;

    /** Refuses what cannot be meant. */
    public RateLimit {
        require(requests >= 1 && requests <= MOST, "requests", requests, "must lie between 1 and " + MOST);
        require(burst >= 1 && burst <= MOST, "burst", burst, "must lie between 1 and " + MOST);
        if (per == null) {
            throw new IllegalArgumentException("RateLimit: per must not be null");
        }
        require(
                per.compareTo(SHORTEST) >= 0 && per.compareTo(LONGEST) <= 0,
                "per",
                per,
                "must lie between a millisecond and a year");
    }

    /** So many in any such time, as many of them at once as there are. */
    public static RateLimit of(long requests, Duration per) {
        return new RateLimit(requests, per, requests);
    }

    /** The same, with so many at once. */
    public RateLimit withBurst(long burst) {
        return new RateLimit(requests, per, burst);
    }

    private static void require(boolean holds, String name, Object value, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException("%s (%s): %s".formatted(name, value, otherwise));
        }
    }
}

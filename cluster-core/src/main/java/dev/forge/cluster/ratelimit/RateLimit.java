// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

import java.time.Duration;

/**
 * A limit for calls, as a token bucket. The bucket holds at most {@code burst} tokens. Each call consumes one, and {@code
 * requests} tokens are added evenly {@code per} period.
 *
 * @param requests the number of tokens added per period
 * @param per the period
 * @param burst the capacity of the bucket, that is, the number of calls admitted at once after a quiet time
 */
public record RateLimit(long requests, Duration per, long burst) {

    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(366);
    private static final long MOST = 1_000_000_000;

    /**
     * Creates a limit.
     *
     * @throws IllegalArgumentException if a value is out of range
     */
    public RateLimit {
        require(requests >= 1 && requests <= MOST, "requests", requests, "must be between 1 and " + MOST);
        require(burst >= 1 && burst <= MOST, "burst", burst, "must be between 1 and " + MOST);
        if (per == null) {
            throw new IllegalArgumentException("RateLimit: per must not be null");
        }
        require(
                per.compareTo(SHORTEST) >= 0 && per.compareTo(LONGEST) <= 0,
                "per",
                per,
                "must be between one millisecond and 366 days");
    }

    /** Creates a limit whose burst equals {@code requests}. */
    public static RateLimit of(long requests, Duration per) {
        return new RateLimit(requests, per, requests);
    }

    /** Returns a copy with that burst. */
    public RateLimit withBurst(long burst) {
        return new RateLimit(requests, per, burst);
    }

    private static void require(boolean valid, String name, Object value, String rule) {
        if (!valid) {
            throw new IllegalArgumentException("RateLimit: %s (%s) %s".formatted(name, value, rule));
        }
    }
}

package dev.forge.cluster.ratelimit;

import java.time.Duration;

/**
 * Whether a call was admitted, and how its bucket stands.
 *
 * @param allowed whether it was; if not, nothing was taken
 * @param limit the limit it was held against
 * @param remaining how many more calls would be admitted now
 * @param retryAfter when the same call would be admitted if nobody else called; zero if it was
 * @param reset when the bucket would be full again if nobody called
 */
public record RateLimitDecision(
        boolean allowed, RateLimit limit, long remaining, Duration retryAfter, Duration reset) {}

package dev.forge.cluster.ratelimit;

/**
 * Keeps the buckets that nodes share. A bean of this type replaces {@code forge_rate_limits}. When it throws, {@code
 * forge.cluster.rate-limit.on-database-loss} decides, and it is left alone for a second.
 */
@FunctionalInterface
public interface RateLimiterBackend {

    /**
     * Takes that many tokens from a bucket, or none. Called by many threads at once.
     *
     * @param bucket the limit's name, followed by the key in brackets if it has one; a new one is full
     */
    RateLimitDecision tryAcquire(String bucket, RateLimit limit, int permits);
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

/**
 * Stores the buckets that nodes share. A bean of this type replaces {@code forge_rate_limits}. If it throws, {@code
 * forge.cluster.rate-limit.on-database-loss} decides, and the backend is not called again for one second.
 */
@FunctionalInterface
public interface RateLimiterBackend {

    /**
     * Takes that many tokens from a bucket, or none. Called concurrently.
     *
     * @param bucket the name of the limit, followed by the key in brackets if there is one; a new bucket is full
     */
    RateLimitDecision tryAcquire(String bucket, RateLimit limit, int permits);
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

/**
 * Limits calls across the cluster. A denied call consumes no tokens, so a caller that keeps trying is admitted at the rate of the
 * limit. The limit is passed with each call; a changed limit applies to all callers from that call on.
 *
 * <p>Each call commits by itself: a rollback of the caller's transaction returns no tokens.
 */
public interface RateLimiter {

    /** Requests one permit from the bucket of that name, which the whole cluster shares. */
    default RateLimitDecision tryAcquire(String name, RateLimit limit) {
        return tryAcquire(name, limit, 1);
    }

    /**
     * Requests several permits at once: all or none.
     *
     * @param name the name of the limit. Use a constant, not a value from a user: the name is a tag of the metric {@code
     *     forge.cluster.ratelimit.rejections}
     * @param permits the number of permits, at most the limit's burst
     */
    RateLimitDecision tryAcquire(String name, RateLimit limit, int permits);

    /**
     * Requests one permit from the bucket of that key. With {@code forge.cluster.rate-limit.mode=hybrid} every node has its own
     * buckets, so that the cluster admits up to the limit times the number of nodes; with {@code strict} the cluster shares one.
     */
    default RateLimitDecision tryAcquire(String name, String key, RateLimit limit) {
        return tryAcquire(name, key, limit, 1);
    }

    /** Requests several permits at once from the bucket of that key: all or none. */
    RateLimitDecision tryAcquire(String name, String key, RateLimit limit, int permits);
}

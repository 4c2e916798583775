package dev.forge.cluster.ratelimit;

/**
 * Admits calls up to a limit. What is denied takes nothing, so that a caller that keeps trying is admitted at the rate of
 * the limit. The limit is told with each call; a changed one counts from that call on, for everybody.
 *
 * <p>Each call commits by itself: a rollback of the caller's transaction gives nothing back.
 */
public interface RateLimiter {

    /** Asks for one call on the bucket of that name, of which there is one in the cluster. */
    default RateLimitDecision tryAcquire(String name, RateLimit limit) {
        return tryAcquire(name, limit, 1);
    }

    /**
     * Asks for several at once: all or none.
     *
     * @param name of the limit, in code rather than from a user: it is a tag of {@code forge.cluster.ratelimit.rejections}
     * @param permits how many; at most the limit's burst
     */
    RateLimitDecision tryAcquire(String name, RateLimit limit, int permits);

    /**
     * Asks for one call on the bucket of that key. With {@code forge.cluster.rate-limit.mode=hybrid} every node has its
     * own, so that the cluster admits up to the limit times the number of nodes; with {@code strict} there is one.
     */
    default RateLimitDecision tryAcquire(String name, String key, RateLimit limit) {
        return tryAcquire(name, key, limit, 1);
    }

    /** Asks for several at once on the bucket of that key: all or none. */
    RateLimitDecision tryAcquire(String name, String key, RateLimit limit, int permits);
}

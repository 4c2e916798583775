package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.time.Duration;

/** The arithmetic of buckets that is the same wherever they are kept. */
final class TokenBucket {

    /** What flows back is not counted in whole tokens: who waits as long as told must not fail by a rounding. */
    static final double HAIR = 1e-6;

    private TokenBucket() {}

    static double perSecond(RateLimit limit) {
        return (double) limit.requests() * 1e9 / (double) limit.per().toNanos();
    }

    /** @param spent what is missing in the bucket now */
    static RateLimitDecision decision(boolean allowed, RateLimit limit, double spent, int permits) {
        return new RateLimitDecision(
                allowed,
                limit,
                (long) Math.max(0, Math.floor((double) limit.burst() - spent + HAIR)),
                allowed ? Duration.ZERO : flow(spent + permits - (double) limit.burst(), limit),
                flow(spent, limit));
    }

    /** What is missing in a bucket that stands like that. */
    static double spent(RateLimitDecision decision) {
        return (double) decision.reset().toNanos() * perSecond(decision.limit()) / 1e9;
    }

    /** How long so many take to flow back. */
    static Duration flow(double tokens, RateLimit limit) {
        return Duration.ofNanos((long) Math.ceil(Math.max(0, tokens) * 1e9 / perSecond(limit)));
    }
}

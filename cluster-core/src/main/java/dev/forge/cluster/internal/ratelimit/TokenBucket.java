// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.time.Duration;

/** The arithmetic that local and shared token buckets have in common. */
final class TokenBucket {

    /** Tokens flow back in fractions. A caller that waits for {@code retryAfter} must not be denied because of a rounding. */
    static final double TOLERANCE = 1e-6;

    private TokenBucket() {}

    static double perSecond(RateLimit limit) {
        return (double) limit.requests() * 1e9 / (double) limit.per().toNanos();
    }

    /** @param spent how many tokens are missing in the bucket now */
    static RateLimitDecision decision(boolean allowed, RateLimit limit, double spent, int permits) {
        return new RateLimitDecision(
                allowed,
                limit,
                (long) Math.max(0, Math.floor((double) limit.burst() - spent + TOLERANCE)),
                allowed ? Duration.ZERO : flow(spent + permits - (double) limit.burst(), limit),
                flow(spent, limit));
    }

    /** Returns how many tokens were missing in the bucket after a decision. */
    static double spent(RateLimitDecision decision) {
        return (double) decision.reset().toNanos() * perSecond(decision.limit()) / 1e9;
    }

    /** Returns how long that many tokens take to flow back. */
    static Duration flow(double tokens, RateLimit limit) {
        return Duration.ofNanos((long) Math.ceil(Math.max(0, tokens) * 1e9 / perSecond(limit)));
    }
}

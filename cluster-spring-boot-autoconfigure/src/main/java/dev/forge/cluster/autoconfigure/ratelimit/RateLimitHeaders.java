// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The headers that report the state of the bucket to the client: those of the current IETF draft ({@code RateLimit},
 * {@code RateLimit-Policy}) and those of earlier drafts, which most clients support.
 */
final class RateLimitHeaders {

    /** The attribute of a request with the decision that the headers report. */
    static final String TOLD = RateLimitHeaders.class.getName();

    private RateLimitHeaders() {}

    /**
     * Returns the headers of a decision; none if those of another one say more: if several limits apply to a request, the headers
     * report a limit that denied it, or else the one with the least left.
     *
     * @param told the {@link #TOLD} attribute of the request
     */
    static Map<String, String> of(@Nullable Object told, String name, RateLimitDecision decision) {
        if (told instanceof RateLimitDecision former
                && decision.allowed()
                && former.remaining() <= decision.remaining()) {
            return Map.of();
        }
        var headers = new LinkedHashMap<String, String>();
        long reset = PropertyRules.wholeSeconds(decision.allowed() ? decision.reset() : decision.retryAfter());
        headers.put("RateLimit-Limit", String.valueOf(decision.limit().burst()));
        headers.put("RateLimit-Remaining", String.valueOf(decision.remaining()));
        headers.put("RateLimit-Reset", String.valueOf(reset));
        headers.put("RateLimit-Policy", quoted(name) + policy(decision.limit()));
        headers.put("RateLimit", "%s;r=%d;t=%d".formatted(quoted(name), decision.remaining(), reset));
        return headers;
    }

    /** Windows are in whole seconds: 10 calls per 0.1 s are reported as 100 calls per second. */
    static String policy(RateLimit limit) {
        long window = PropertyRules.wholeSeconds(limit.per());
        double quota = limit.requests() * (window * 1e9 / limit.per().toNanos());
        return ";q=%d;w=%d".formatted(Math.round(quota), window);
    }

    private static String quoted(String name) {
        return '"' + name.replaceAll("[^\\x20-\\x7e]", "?").replaceAll("([\"\\\\])", "\\\\$1") + '"';
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.properties.PropertyRules;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;

/**
 * The headers that report the state of the bucket to the client: those of the current IETF draft ({@code RateLimit},
 * {@code RateLimit-Policy}) and those of earlier drafts, which most clients support.
 */
final class RateLimitHeaders {

    private static final String TOLD = RateLimitHeaders.class.getName();

    private RateLimitHeaders() {}

    /** If several limits apply to a request, the headers report a limit that denied it, or else the one with the least left. */
    static void add(HttpServletRequest request, HttpServletResponse response, String name, RateLimitDecision decision) {
        if (request.getAttribute(TOLD) instanceof RateLimitDecision told
                && decision.allowed()
                && told.remaining() <= decision.remaining()) {
            return;
        }
        request.setAttribute(TOLD, decision);
        long reset = PropertyRules.wholeSeconds(decision.allowed() ? decision.reset() : decision.retryAfter());
        response.setHeader("RateLimit-Limit", String.valueOf(decision.limit().burst()));
        response.setHeader("RateLimit-Remaining", String.valueOf(decision.remaining()));
        response.setHeader("RateLimit-Reset", String.valueOf(reset));
        response.setHeader("RateLimit-Policy", quoted(name) + policy(decision.limit()));
        response.setHeader("RateLimit", "%s;r=%d;t=%d".formatted(quoted(name), decision.remaining(), reset));
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

package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.autoconfigure.properties.PropertyRules;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;

/**
 * The headers that tell a client how its bucket stands: those of the current draft of the IETF ({@code RateLimit},
 * {@code RateLimit-Policy}), and those of its predecessors, which most clients know.
 */
final class RateLimitHeaders {

    private static final String TOLD = RateLimitHeaders.class.getName();

    private RateLimitHeaders() {}

    /** Of several limits that a request meets, the one with the least left is told, and one that denied it above all. */
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

    /** Windows have whole seconds there: ten each tenth of a second are told as a hundred each second. */
    static String policy(RateLimit limit) {
        long window = PropertyRules.wholeSeconds(limit.per());
        double quota = limit.requests() * (window * 1e9 / limit.per().toNanos());
        return ";q=%d;w=%d".formatted(Math.round(quota), window);
    }

    private static String quoted(String name) {
        return '"' + name.replaceAll("[^\\x20-\\x7e]", "?").replaceAll("([\"\\\\])", "\\\\$1") + '"';
    }
}

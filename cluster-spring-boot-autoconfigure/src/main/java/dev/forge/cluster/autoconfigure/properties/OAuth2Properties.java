package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Logins with Spring Security's OAuth2 client.
 *
 * @param enabled Whether a login that began on one node may be completed on any other. Switch it off where the security
 *     chain sets an AuthorizationRequestRepository of its own that is no bean.
 * @param ttl How long a login may take from the redirect to the identity provider to its callback.
 * @param maxPending How many logins may be pending in the whole cluster. While there are as many, a new one is refused
 *     with 503.
 * @param maxPerMinute How many logins one client address may begin per minute on each node; more are refused with 429.
 *     0 for no limit. Over the ttl, on all nodes, they should be far fewer than max-pending.
 */
public record OAuth2Properties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("10m") Duration ttl,
        @DefaultValue("10000") int maxPending,
        @DefaultValue("30") int maxPerMinute) {

    private static final Duration LONGEST_LOGIN = Duration.ofDays(1);
    private static final int MOST_PENDING = 100_000;

    public OAuth2Properties {
        // A cookie's age is counted in seconds.
        require(ttl.compareTo(Duration.ofSeconds(1)) >= 0, "oauth2.ttl", ttl, "must not be shorter than 1s");
        require(ttl.compareTo(LONGEST_LOGIN) <= 0, "oauth2.ttl", ttl, "must not be longer than a day");
        require(
                maxPending >= 1 && maxPending <= MOST_PENDING,
                "oauth2.max-pending",
                maxPending,
                "must lie between 1 and %d: they are counted when a login begins".formatted(MOST_PENDING));
        atLeast(0, "oauth2.max-per-minute", maxPerMinute);
    }

    /** What one address can begin on one node before the first of it expires: a burst, and what comes back meanwhile. */
    long pendingOfOneAddress() {
        return maxPerMinute + maxPerMinute * ttl.toSeconds() / 60;
    }
}

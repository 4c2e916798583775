// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Logins with the OAuth2 client of Spring Security.
 *
 * @param enabled Whether a login that began on one node can be completed on any other. Disable it if the security filter chain sets an
 *     AuthorizationRequestRepository that is not a bean.
 * @param ttl Longest time between the redirect to the identity provider and its callback.
 * @param maxPending Number of pending logins in the whole cluster. Beyond it, new logins are rejected with status 503.
 * @param maxPerMinute Number of logins that one client address may begin per minute on each node; 0 for no limit. Beyond it, logins are
 *     rejected with status 429. The number over the ttl on all nodes should be far below max-pending.
 */
public record OAuth2Properties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("10m") Duration ttl,
        @DefaultValue("10000") int maxPending,
        @DefaultValue("30") int maxPerMinute) {

    private static final Duration MAX_TTL = Duration.ofDays(1);
    private static final int MAX_PENDING = 100_000;

    public OAuth2Properties {
        // The maximum age of a cookie is in seconds.
        require(ttl.compareTo(Duration.ofSeconds(1)) >= 0, "oauth2.ttl", ttl, "must not be shorter than 1s");
        require(ttl.compareTo(MAX_TTL) <= 0, "oauth2.ttl", ttl, "must not be longer than a day");
        require(
                maxPending >= 1 && maxPending <= MAX_PENDING,
                "oauth2.max-pending",
                maxPending,
                "must be between 1 and %d, because pending logins are counted when a login begins"
                        .formatted(MAX_PENDING));
        atLeast(0, "oauth2.max-per-minute", maxPerMinute);
    }

    /** Returns the number of logins one address can begin on one node within the ttl: the burst and the refill. */
    public long pendingOfOneAddress() {
        return maxPerMinute + maxPerMinute * ttl.toSeconds() / 60;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.named;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.properties.value.AddressRange;
import java.util.List;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Rate limits.
 *
 * @param mode Where calls are counted. Hybrid: per user and address on each node, global limits in the database. Strict: all in the
 *     database.
 * @param onDatabaseLoss Behaviour of limits in the database while the database is unreachable: local (count on the node), deny or
 *     allow.
 * @param maxLocalBuckets Number of buckets of users, addresses and expressions that a node keeps. The least recently used ones are
 *     evicted.
 * @param trustedProxies Addresses and networks of proxies whose X-Forwarded-For header is trusted when calls are limited by address.
 */
public record RateLimitProperties(
        @DefaultValue("hybrid") Mode mode,
        @DefaultValue("local") DatabaseLoss onDatabaseLoss,
        @DefaultValue("100000") int maxLocalBuckets,
        @DefaultValue List<String> trustedProxies) {
    public RateLimitProperties {
        atLeast(1, "rate-limit.max-local-buckets", maxLocalBuckets);
        trustedProxies = List.copyOf(trustedProxies);
        trustedProxies.forEach(RateLimitProperties::range);
    }

    /** Returns the parsed trusted proxies. */
    public List<AddressRange> trustedRanges() {
        return trustedProxies.stream().map(RateLimitProperties::range).toList();
    }

    private static AddressRange range(String text) {
        try {
            return AddressRange.of(text.trim());
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    named("rate-limit.trusted-proxies", text) + " " + e.getMessage(),
                    "List the addresses or networks of the proxies in front of the application.",
                    e);
        }
    }

    /** Where calls are counted. */
    public enum Mode {
        /** Calls of users and addresses on each node, global limits in the database. */
        HYBRID,
        /** All calls in the database. */
        STRICT
    }

    /** Behaviour while the database is unreachable. */
    public enum DatabaseLoss {
        /** Counts on the node. */
        LOCAL,
        /** Rejects all calls. */
        DENY,
        /** Permits all calls. */
        ALLOW
    }
}

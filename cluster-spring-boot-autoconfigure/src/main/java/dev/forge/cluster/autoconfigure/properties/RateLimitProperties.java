package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.named;

import dev.forge.cluster.ClusterStartupException;
import java.util.List;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How rate limits are kept.
 *
 * @param mode Hybrid counts users and addresses on each node and global limits in the database; strict counts
 *     everything in the database.
 * @param onDatabaseLoss What a limit kept in the database does while that is out of reach: local counts on the node,
 *     deny, allow.
 * @param maxLocalBuckets How many buckets of users, addresses and expressions a node keeps; the least used ones are
 *     forgotten.
 * @param trustedProxies Addresses and networks of proxies whose X-Forwarded-For is believed when calls are limited by
 *     address.
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

    /** The trusted proxies, to be compared with. */
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
        /** Users and addresses on each node, global limits in the database. */
        HYBRID,
        /** Everything in the database. */
        STRICT
    }

    /** What to do without the database. */
    public enum DatabaseLoss {
        /** Count on the node. */
        LOCAL,
        /** Refuse every call. */
        DENY,
        /** Admit every call. */
        ALLOW
    }
}

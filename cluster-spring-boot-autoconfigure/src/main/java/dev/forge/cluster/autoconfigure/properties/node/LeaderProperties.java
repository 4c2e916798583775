// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.shorter;

import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.leader.LeaderStrategy;
import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Leader election.
 *
 * @param strategy How leaders are elected: advisory-lock, lease, or auto (advisory-lock unless a transaction pooler is detected).
 * @param checkInterval Interval at which a candidate tries to become leader.
 * @param leaseDuration How long a leader keeps its role without renewing its lease.
 * @param renewInterval Interval at which a leader renews its lease.
 */
public record LeaderProperties(
        @DefaultValue("auto") LeaderStrategy strategy,
        @DefaultValue("250ms") Duration checkInterval,
        @DefaultValue("5s") Duration leaseDuration,
        @DefaultValue("1s") Duration renewInterval) {

    /** A leader that could not renew its lease for this long no longer considers itself the leader. */
    public static final Duration LOCAL_DEADLINE = Duration.ofSeconds(3);
    /** The server releases the locks of a disconnected session after this time. */
    static final Duration SERVER_RELEASE = Duration.ofSeconds(7);

    public LeaderProperties {
        positive("leader.check-interval", checkInterval);
        positive("leader.lease-duration", leaseDuration);
        positive("leader.renew-interval", renewInterval);
        shorter("leader.renew-interval", renewInterval, "leader.lease-duration", leaseDuration);
        // A disconnected leader must lose its role in this order: locally, by the end of its lease, by the server.
        require(
                leaseDuration.compareTo(LOCAL_DEADLINE) > 0,
                "leader.lease-duration",
                leaseDuration,
                "must be longer than the %s after which a leader without the database resigns"
                        .formatted(PropertyRules.text(LOCAL_DEADLINE)));
        require(
                leaseDuration.compareTo(SERVER_RELEASE) < 0,
                "leader.lease-duration",
                leaseDuration,
                "must be shorter than the %s after which the server releases the locks of a lost session"
                        .formatted(PropertyRules.text(SERVER_RELEASE)));
        require(
                renewInterval.compareTo(LOCAL_DEADLINE) < 0,
                "leader.renew-interval",
                renewInterval,
                "must be shorter than the %s after which a leader without the database resigns"
                        .formatted(PropertyRules.text(LOCAL_DEADLINE)));
    }
}

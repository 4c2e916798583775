// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notShorter;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.shorter;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Heartbeats of nodes.
 *
 * @param interval Interval between heartbeats.
 * @param adaptive Whether the interval grows while the cluster does not change.
 * @param maxInterval Longest interval if adaptive.
 * @param staleThreshold Time without a heartbeat after which other nodes mark the node stale. At least twice the interval.
 * @param deadThreshold Time without a heartbeat after which other nodes declare the node dead and take over its work. At least three
 *     times the interval.
 */
public record HeartbeatProperties(
        @DefaultValue("5s") Duration interval,
        @DefaultValue("false") boolean adaptive,
        @DefaultValue("60s") Duration maxInterval,
        @DefaultValue("10s") Duration staleThreshold,
        @DefaultValue("15s") Duration deadThreshold) {
    public HeartbeatProperties {
        positive("heartbeat.interval", interval);
        positive("heartbeat.max-interval", maxInterval);
        positive("heartbeat.stale-threshold", staleThreshold);
        positive("heartbeat.dead-threshold", deadThreshold);
        if (adaptive) {
            notShorter("heartbeat.max-interval", maxInterval, "heartbeat.interval", interval);
        }
        shorter("heartbeat.interval", interval, "heartbeat.stale-threshold", staleThreshold);
        shorter("heartbeat.stale-threshold", staleThreshold, "heartbeat.dead-threshold", deadThreshold);
        require(
                deadThreshold.compareTo(interval.multipliedBy(3)) >= 0,
                "heartbeat.dead-threshold",
                deadThreshold,
                "must be at least three times " + named("heartbeat.interval", interval));
    }
}

package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notShorter;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.shorter;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How a node shows that it lives.
 *
 * @param interval Pause between two heartbeats.
 * @param adaptive Whether the interval grows while the cluster does not change.
 * @param maxInterval How far an adaptive interval grows.
 * @param staleThreshold Silence after which the others call the node stale; at least twice its interval.
 * @param deadThreshold Silence after which the others call the node dead and take over what it held; at least three
 *     times its interval.
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

package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How a dead node is noticed.
 *
 * @param interval Pause between two looks at the other nodes.
 * @param livenessLock Whether each node holds a session-bound lock, by whose absence a crash is seen in under a
 *     second.
 */
public record DetectionProperties(
        @DefaultValue("250ms") Duration interval,
        @DefaultValue("true") boolean livenessLock) {
    public DetectionProperties {
        positive("detection.interval", interval);
    }
}

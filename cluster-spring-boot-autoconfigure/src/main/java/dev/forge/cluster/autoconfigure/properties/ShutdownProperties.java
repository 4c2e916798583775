package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How the node leaves.
 *
 * @param drainTimeout How long running work may take to finish before it is interrupted and given back.
 */
public record ShutdownProperties(@DefaultValue("30s") Duration drainTimeout) {
    public ShutdownProperties {
        positive("shutdown.drain-timeout", drainTimeout);
    }
}

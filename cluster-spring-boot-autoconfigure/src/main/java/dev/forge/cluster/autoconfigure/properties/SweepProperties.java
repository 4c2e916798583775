package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How abandoned claims are found.
 *
 * @param interval Pause between two sweeps.
 * @param startupGrace How long after a start, an outage or a server restart nothing is swept;
 *     forge.cluster.job.lease-duration by default.
 */
public record SweepProperties(
        @DefaultValue("10s") Duration interval, @Nullable Duration startupGrace) {
    public SweepProperties {
        positive("sweep.interval", interval);
        notNegative("sweep.startup-grace", startupGrace);
    }
}

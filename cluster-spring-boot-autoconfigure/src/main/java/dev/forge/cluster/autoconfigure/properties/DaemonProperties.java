package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Defaults of daemons.
 *
 * @param restartDelay Pause before a daemon that threw, or returned and may, is started again; twice as long each time
 *     that it ends soon, up to five minutes.
 * @param startupDelay For how long a node must have been up before it runs a daemon.
 * @param maxRestarts How many times in a row a daemon that threw is started again; without limit by default.
 */
public record DaemonProperties(
        @DefaultValue("5s") Duration restartDelay,
        @DefaultValue("0s") Duration startupDelay,
        @Nullable Integer maxRestarts) {
    public DaemonProperties {
        positive("daemon.restart-delay", restartDelay);
        notNegative("daemon.startup-delay", startupDelay);
        atLeast(0, "daemon.max-restarts", maxRestarts);
    }
}

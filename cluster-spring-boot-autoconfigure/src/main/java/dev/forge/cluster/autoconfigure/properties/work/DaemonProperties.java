// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Defaults of daemons.
 *
 * @param restartDelay Delay before a daemon that has failed or returned is restarted. Doubles each time the daemon ends soon after
 *     its start, up to five minutes.
 * @param startupDelay How long a node must have been running before it starts daemons.
 * @param maxRestarts Number of restarts in a row after failures. Default: unlimited.
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

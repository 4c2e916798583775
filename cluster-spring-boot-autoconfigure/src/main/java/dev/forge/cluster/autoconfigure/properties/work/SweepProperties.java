// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Recovery of jobs from failed nodes.
 *
 * @param interval Interval between sweeps.
 * @param startupGrace Time after a start, an outage or a restart of the server during which no job is recovered. Default:
 *     forge.cluster.job.lease-duration.
 */
public record SweepProperties(
        @DefaultValue("10s") Duration interval, @Nullable Duration startupGrace) {
    public SweepProperties {
        positive("sweep.interval", interval);
        notNegative("sweep.startup-grace", startupGrace);
    }
}

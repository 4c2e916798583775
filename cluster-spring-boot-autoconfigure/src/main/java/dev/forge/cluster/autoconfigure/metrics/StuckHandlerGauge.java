// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.job.JobEngine;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;

/** Counts the handlers of this node that ignore the interrupt. One series without tags: the health details name the handlers. */
public final class StuckHandlerGauge {

    public StuckHandlerGauge(MeterRegistry registry, String cluster, JobEngine engine) {
        Gauge.builder(
                        "forge.cluster.job.handlers.stuck",
                        engine,
                        jobs -> jobs.stuckHandlers().size())
                .description(
                        "Handlers of this node that exceeded their timeout, or lost their claim, and ignore the interrupt")
                .tag("cluster", cluster)
                .register(registry);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.WakeupChannel;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.job.ClusterCoordinator;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** Reports whether wake-ups arrive. Always UP: without them workers poll, so jobs start later but do start. */
final class WakeupHealth implements HealthIndicator {

    private final JobEngine engine;
    private final @Nullable ClusterCoordinator coordinator;
    private final Duration pollInterval;

    /** @param coordinator carries wake-ups instead of PostgreSQL; null if PostgreSQL does */
    WakeupHealth(JobEngine engine, @Nullable ClusterCoordinator coordinator, Duration pollInterval) {
        this.engine = engine;
        this.coordinator = coordinator;
        this.pollInterval = pollInterval;
    }

    @Override
    public Health health() {
        Health.Builder health = Health.up().withDetail("type", type());
        if (!type().equals("none")) {
            boolean connected = engine.receivesWakeups();
            health.withDetail("connected", connected);
            if (!connected) {
                health.withDetail("warning", "no wake-ups: workers poll every " + PropertyRules.text(pollInterval));
            }
        }
        return health.build();
    }

    private String type() {
        if (coordinator == null) {
            return "postgres";
        }
        return coordinator instanceof WakeupChannel channel ? channel.type() : "custom";
    }
}

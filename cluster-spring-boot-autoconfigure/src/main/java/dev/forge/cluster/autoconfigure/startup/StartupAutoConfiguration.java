// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.startup;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.node.StartupProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.startup.DefaultStartupCoordinator;
import dev.forge.cluster.internal.startup.StartupActions;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.startup.StartupCoordinator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;

/** Configures startup actions. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class StartupAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    StartupCoordinator clusterStartupCoordinator(
            ClusterLocks locks, ClusterProperties properties, Schema schema, NodeRuntime runtime) {
        StartupProperties startup = properties.startup();
        return new DefaultStartupCoordinator(
                locks,
                startup.leaseDuration(),
                new StartupActions(
                        runtime.node(),
                        schema,
                        runtime.control(),
                        StartupActions.Timing.waitingFor(startup.waitTimeout())));
    }
}

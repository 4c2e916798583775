// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.daemon;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.daemon.DaemonEngine;
import dev.forge.cluster.internal.daemon.DaemonHandlers;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.daemon.DefaultDaemons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.leader.LeaderStore;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.annotation.Order;
import org.springframework.transaction.PlatformTransactionManager;

/** Configures daemons. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class DaemonAutoConfiguration {

    @Bean
    DaemonHandlers clusterDaemonHandlers() {
        return new DaemonHandlers();
    }

    @Bean
    static ClusterDaemonRegistrar clusterDaemonRegistrar(
            ConfigurableListableBeanFactory beans, DaemonHandlers handlers, ClusterProperties properties) {
        return new ClusterDaemonRegistrar(beans, handlers, properties.daemon());
    }

    // Uses its own fence, because the application may have replaced the Leadership bean.
    @Bean
    @Order(ComponentOrder.DAEMONS)
    DaemonEngine clusterDaemonEngine(
            ClusterDatabase database,
            Schema schema,
            NodeRuntime runtime,
            DaemonHandlers handlers,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new DaemonEngine(
                runtime.node(),
                handlers,
                new FencedLeadership(
                        runtime.node(),
                        new LeaderStore(schema, database.application()),
                        database.transactions(managers)));
    }

    @Bean
    @ConditionalOnMissingBean
    Daemons clusterDaemons(Schema schema, NodeRuntime runtime, DaemonEngine engine) {
        return new DefaultDaemons(
                runtime.node(),
                engine,
                new DaemonStore(schema, runtime.control().shared()));
    }
}

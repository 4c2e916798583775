// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.state;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.MissingPayloadCodec;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.state.DefaultClusterStateStore;
import dev.forge.cluster.internal.state.StateCleanUp;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.state.ClusterStateStore;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.annotation.Order;

/** Configures shared state. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class StateAutoConfiguration {

    @Bean
    @Order(ComponentOrder.CLEAN_UP)
    StateCleanUp clusterStateCleanUp(Schema schema, NodeRuntime runtime) {
        return new StateCleanUp(new StateStore(schema, runtime.control(), runtime.control()), runtime.node()::nanos);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterStateStore clusterStateStore(
            ClusterDatabase database,
            Schema schema,
            NodeRuntime runtime,
            ObjectProvider<PayloadCodec> codec,
            ClusterProperties properties) {
        return new DefaultClusterStateStore(
                runtime.node(),
                new StateStore(schema, database.application(), runtime.control().shared()),
                codec.getIfAvailable(MissingPayloadCodec::new),
                Math.toIntExact(properties.job().maxPayloadSize().toBytes()));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.lock;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.lock.DefaultClusterLocks;
import dev.forge.cluster.internal.lock.LockCleanUp;
import dev.forge.cluster.internal.lock.LockKeeper;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.startup.StartupActionStore;
import dev.forge.cluster.lock.ClusterLocks;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.annotation.Order;

/** Configures cluster-wide locks. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class LockAutoConfiguration {

    @Bean
    @Order(ComponentOrder.LOCKS)
    LockCleanUp clusterLockCleanUp(Schema schema, NodeRuntime runtime) {
        return new LockCleanUp(
                new LockStore(schema, runtime.node().resources().nodes().source()),
                StartupActionStore.KEPT_LOCKS,
                runtime.node()::nanos);
    }

    @Bean
    @Order(ComponentOrder.LOCKS)
    LockKeeper clusterLockKeeper(ClusterProperties properties, Schema schema, NodeRuntime runtime) {
        return new LockKeeper(
                new LockStore(schema, runtime.control().shared()),
                properties.lock().leaseDuration(),
                runtime.node()::nanos);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterLocks clusterLocks(LockKeeper keeper, Schema schema, NodeRuntime runtime, ClusterDatabase database) {
        return new DefaultClusterLocks(
                runtime.node(),
                new LockStore(schema, runtime.control().shared()),
                keeper,
                new CallerTransaction(database.application()));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.leader;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.leader.Leadership;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.transaction.PlatformTransactionManager;

/** Configures leadership. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class LeaderAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    Leadership clusterLeadership(
            ClusterDatabase database,
            Schema schema,
            NodeRuntime runtime,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new FencedLeadership(
                runtime.node(), new LeaderStore(schema, database.application()), database.transactions(managers));
    }

    @Bean
    static LeaderRoleRegistrar clusterLeaderRoleRegistrar(
            ConfigurableListableBeanFactory beans, ObjectProvider<Leadership> leadership) {
        return new LeaderRoleRegistrar(beans, leadership);
    }
}

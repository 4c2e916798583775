// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.cron;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.work.CronProperties;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.cron.CronContexts;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.cron.DefaultCrons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
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

/** Configures crons. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class CronAutoConfiguration {

    @Bean
    CronDeclarations clusterCronDeclarations(JobHandlers handlers) {
        return new CronDeclarations(handlers);
    }

    @Bean
    static ClusterCronRegistrar clusterCronRegistrar(
            ConfigurableListableBeanFactory beans,
            CronDeclarations crons,
            ClusterProperties properties,
            ClusterDatabase database) {
        return new ClusterCronRegistrar(beans, crons, properties, database);
    }

    @Bean
    @Order(ComponentOrder.CRONS)
    CronEngine clusterCronEngine(
            ClusterProperties properties,
            NodeRuntime runtime,
            JobEngine jobs,
            JobEngine.Dependencies tools,
            CronDeclarations crons) {
        CronProperties cron = properties.cron();
        return new CronEngine(
                runtime.node(),
                jobs,
                crons,
                tools.monitor(),
                new CronEngine.Settings(
                        cron.misfireThreshold(),
                        cron.retention(),
                        new CronEngine.Defaults(cron.zone(), cron.misfire().policy(), cron.catchUpLimit())));
    }

    @Bean
    CronContexts clusterCronContexts(
            ClusterDatabase database,
            Schema schema,
            NodeRuntime runtime,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new CronContexts(
                runtime.node(),
                new FencedLeadership(
                        runtime.node(),
                        new LeaderStore(schema, database.application()),
                        database.transactions(managers)),
                database.application());
    }

    @Bean
    @ConditionalOnMissingBean
    Crons clusterCrons(
            ClusterDatabase database,
            NodeRuntime runtime,
            DefaultCrons.Engines engines,
            JobEngine.Dependencies tools,
            CronDeclarations crons) {
        return new DefaultCrons(runtime.node(), engines, crons, database.application(), tools);
    }

    @Bean
    DefaultCrons.Engines clusterEngines(JobEngine jobs, CronEngine crons) {
        return new DefaultCrons.Engines(jobs, crons);
    }
}

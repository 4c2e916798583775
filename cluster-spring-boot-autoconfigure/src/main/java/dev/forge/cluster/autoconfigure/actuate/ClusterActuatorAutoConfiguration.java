package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.JobReports;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.workflow.Workflows;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** Health and endpoint, as far as the application has what they need. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = {
            "dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration",
            "dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration",
            "dev.forge.cluster.autoconfigure.job.JobAutoConfiguration",
            "dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration",
            "org.springframework.boot.health.autoconfigure.actuate.endpoint.AvailabilityProbesAutoConfiguration"
        })
@ConditionalOnBean(ClusterLifecycle.class)
public final class ClusterActuatorAutoConfiguration {

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({CompositeHealthContributor.class, ConditionalOnEnabledHealthIndicator.class})
    @ConditionalOnEnabledHealthIndicator("forge-cluster")
    static class HealthConfiguration {

        private static final String NAME = "forgeCluster";

        @Bean
        @ConditionalOnMissingBean(name = "forgeClusterHealthContributor")
        CompositeHealthContributor forgeClusterHealthContributor(
                ClusterLifecycle.Parts parts,
                JobEngine engine,
                JobEngine.Dependencies tools,
                Schema schema,
                ClusterProperties properties,
                ObjectProvider<WorkflowEngine> workflows) {
            return new ClusterHealth(
                            parts.node(), engine, schema, properties, tools.coordinator(), workflows.getIfAvailable())
                    .contributor();
        }

        /** Whoever has configured the readiness group has decided what is in it. */
        @Bean
        @Conditional(OnDefaultReadiness.class)
        static ReadinessMembership clusterReadinessMembership(ObjectProvider<WorkflowEngine> workflows) {
            return new ReadinessMembership(NAME, () -> {
                WorkflowEngine engine = workflows.getIfAvailable();
                return engine != null && engine.isStranded();
            });
        }
    }

    static final class OnDefaultReadiness implements Condition {
        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return !Binder.get(context.getEnvironment())
                    .bind("management.endpoint.health.group.readiness.include", Bindable.setOf(String.class))
                    .isBound();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ConditionalOnAvailableEndpoint.class)
    @EnableConfigurationProperties(ClusterEndpointProperties.class)
    static class EndpointConfiguration {

        @Bean
        @ConditionalOnMissingBean
        @ConditionalOnAvailableEndpoint
        ClusterEndpoint clusterEndpoint(
                ClusterAutoConfiguration.ClusterName name,
                ClusterLifecycle.Parts parts,
                Schema schema,
                JobsResource jobs,
                CronsResource crons,
                DaemonsResource daemons,
                ObjectProvider<Workflows> workflows) {
            return new ClusterEndpoint(
                    name.text(),
                    parts.node(),
                    new ClusterEndpoint.Stores(
                            new NodeStore(schema, parts.control().shared()),
                            new LeaderStore(schema, parts.control().shared()),
                            new LockStore(schema, parts.control().shared())),
                    jobs,
                    crons,
                    daemons,
                    workflows.stream()
                            .findFirst()
                            .map(all -> new WorkflowsResource(all, jobs))
                            .orElse(null));
        }

        @Bean
        CronsResource clusterCronsResource(
                Crons crons,
                ObjectProvider<SanitizingFunction> sanitizingFunctions,
                ClusterEndpointProperties properties) {
            return new CronsResource(
                    crons, new Sanitizer(sanitizingFunctions.orderedStream().toList()), properties);
        }

        @Bean
        DaemonsResource clusterDaemonsResource(
                Daemons daemons,
                ObjectProvider<SanitizingFunction> sanitizingFunctions,
                ClusterEndpointProperties properties) {
            return new DaemonsResource(
                    daemons, new Sanitizer(sanitizingFunctions.orderedStream().toList()), properties);
        }

        @Bean
        JobsResource clusterJobsResource(
                Jobs jobs,
                Schema schema,
                ClusterLifecycle.Parts parts,
                JobEngine.Dependencies tools,
                ObjectProvider<SanitizingFunction> sanitizingFunctions,
                ClusterEndpointProperties properties) {
            return new JobsResource(
                    jobs,
                    new JobReports(schema, parts.control().shared()),
                    tools.codec(),
                    new Sanitizer(sanitizingFunctions.orderedStream().toList()),
                    properties);
        }
    }
}

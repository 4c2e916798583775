// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
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

/** Adds the health contributor and the endpoint if the application has the modules of Spring Boot they need. */
@AutoConfiguration(
        after = {ClusterAutoConfiguration.class, ClusterOperationsAutoConfiguration.class},
        afterName = {
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
                NodeRuntime runtime,
                JobEngine engine,
                JobEngine.Dependencies tools,
                Schema schema,
                ClusterProperties properties,
                ObjectProvider<WorkflowEngine> workflows) {
            return new ClusterHealth(runtime.node(), engine, schema, properties, workflows.getIfAvailable())
                    .contributor(new WakeupHealth(
                            engine, tools.coordinator(), properties.worker().pollInterval()));
        }

        @Bean
        @Conditional(OnDefaultReadiness.class)
        static ReadinessMembership clusterReadinessMembership(ObjectProvider<WorkflowEngine> workflows) {
            return new ReadinessMembership(NAME, () -> {
                WorkflowEngine engine = workflows.getIfAvailable();
                return engine != null && engine.isStranded();
            });
        }
    }

    /** Matches unless the application itself has configured the members of the readiness group. */
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
        static UnknownParameters unknownClusterEndpointParameters(ObjectProvider<ClusterOperations> operations) {
            return new UnknownParameters("forgecluster", operations);
        }

        @Bean
        @ConditionalOnMissingBean
        @ConditionalOnAvailableEndpoint
        ClusterEndpoint clusterEndpoint(ClusterOperations operations, ClusterEndpointProperties properties) {
            return new ClusterEndpoint(operations, properties);
        }
    }
}

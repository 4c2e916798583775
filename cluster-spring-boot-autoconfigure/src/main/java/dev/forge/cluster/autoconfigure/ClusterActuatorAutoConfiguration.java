package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.Leadership;
import dev.forge.cluster.internal.store.LeaderStore;
import dev.forge.cluster.internal.store.LockStore;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.Schema;
import io.micrometer.core.instrument.MeterRegistry;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
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

/** Health, endpoint and metrics, as far as the application has what they need. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration",
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
                ClusterLifecycle.Parts parts, Schema schema, ClusterProperties properties) {
            return new ClusterHealth(parts.node(), schema, properties.health().readinessIncludesDatabase())
                    .contributor();
        }

        /** Whoever has configured the readiness group has decided what is in it. */
        @Bean
        @Conditional(OnDefaultReadiness.class)
        static ReadinessMembership clusterReadinessMembership() {
            return new ReadinessMembership(NAME);
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
    static class EndpointConfiguration {

        @Bean
        @ConditionalOnMissingBean
        @ConditionalOnAvailableEndpoint
        ClusterEndpoint clusterEndpoint(
                ClusterAutoConfiguration.ClusterName name, ClusterLifecycle.Parts parts, Schema schema) {
            return new ClusterEndpoint(
                    name.text(),
                    parts.node(),
                    new ClusterEndpoint.Stores(
                            new NodeStore(schema, parts.control().shared()),
                            new LeaderStore(schema, parts.control().shared()),
                            new LockStore(schema, parts.control().shared())));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    @ConditionalOnBean(MeterRegistry.class)
    static class MetricsConfiguration {

        @Bean
        ClusterMetrics clusterMetrics(
                MeterRegistry registry,
                ClusterAutoConfiguration.ClusterName name,
                Leadership leadership,
                Schema schema,
                ClusterLifecycle.Parts parts) {
            return new ClusterMetrics(
                    registry,
                    name.text(),
                    leadership,
                    new NodeStore(schema, parts.control().shared()));
        }
    }
}

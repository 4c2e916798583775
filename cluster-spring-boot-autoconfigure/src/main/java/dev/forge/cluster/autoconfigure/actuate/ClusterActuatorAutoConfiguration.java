package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.ClusterProperties;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetrics;
import dev.forge.cluster.autoconfigure.metrics.JobMeters;
import dev.forge.cluster.autoconfigure.metrics.JobObservations;
import dev.forge.cluster.autoconfigure.metrics.JobOrigins;
import dev.forge.cluster.autoconfigure.metrics.StuckHandlerGauge;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.JobReports;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.internal.workflow.WorkflowReports;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.workflow.Workflows;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.tracing.Tracer;
import io.micrometer.tracing.propagation.Propagator;
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

/** Health, endpoint and metrics, as far as the application has what they need. */
@AutoConfiguration(
        after = {ClusterAutoConfiguration.class, WorkflowAutoConfiguration.class},
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
                ClusterLifecycle.Parts parts,
                JobEngine engine,
                JobEngine.Tools tools,
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
                JobEngine.Tools tools,
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
                    new ClusterMetrics.Sources(
                            parts.node(),
                            new NodeStore(schema, parts.control().shared()),
                            new JobReports(schema, parts.control().shared()),
                            new DaemonStore(schema, parts.control().shared()),
                            new WorkflowReports(schema, parts.control().shared()),
                            new StateStore(
                                    schema,
                                    parts.control().shared(),
                                    parts.control().shared()),
                            parts.scheduler()));
        }

        @Bean
        static MeterFilter clusterObservationMeterFilter() {
            return JobMeters.WITHOUT_ERROR_TAG;
        }

        @Bean
        JobMeters clusterJobMeters(MeterRegistry registry, ClusterAutoConfiguration.ClusterName name) {
            return new JobMeters(registry, name.text());
        }

        @Bean
        StuckHandlerGauge clusterStuckHandlerGauge(
                MeterRegistry registry, ClusterAutoConfiguration.ClusterName name, JobEngine engine) {
            return new StuckHandlerGauge(registry, name.text(), engine);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ObservationRegistry.class)
    static class ObservationConfiguration {

        @Bean
        JobObservations clusterJobObservations(
                ObjectProvider<ObservationRegistry> registry, ClusterAutoConfiguration.ClusterName name) {
            return new JobObservations(registry.getIfUnique(() -> ObservationRegistry.NOOP), name.text());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({Tracer.class, Propagator.class})
    static class TracingConfiguration {

        @Bean
        JobOrigins clusterJobOrigins(ObjectProvider<Tracer> tracer, ObjectProvider<Propagator> propagator) {
            return new JobOrigins(tracer.getIfUnique(() -> Tracer.NOOP), propagator.getIfUnique(() -> Propagator.NOOP));
        }
    }
}

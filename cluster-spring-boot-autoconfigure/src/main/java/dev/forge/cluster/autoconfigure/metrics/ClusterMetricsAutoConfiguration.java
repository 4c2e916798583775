// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobWaitReports;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.Leadership;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.tracing.Tracer;
import io.micrometer.tracing.propagation.Propagator;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/** Adds meters, observations and traces if the application has the libraries they need. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = {
            "dev.forge.cluster.autoconfigure.job.JobAutoConfiguration",
            "dev.forge.cluster.autoconfigure.leader.LeaderAutoConfiguration",
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
        })
@ConditionalOnBean(ClusterLifecycle.class)
public final class ClusterMetricsAutoConfiguration {

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
                NodeRuntime runtime,
                JobHandlers handlers,
                JobOperations operations,
                ClusterProperties properties) {
            return new ClusterMetrics(
                    registry,
                    name.text(),
                    leadership,
                    new ClusterMetrics.Sources(
                            runtime.node(),
                            new NodeReports(schema, runtime.control().reports()),
                            new JobReports(schema, runtime.control().reports()),
                            new JobWaitReports(schema, runtime.control().reports()),
                            handlers,
                            operations::demand,
                            properties.worker().drainTarget(),
                            new DaemonStore(schema, runtime.control().reports()),
                            new WorkflowReports(schema, runtime.control().reports()),
                            new StateStore(
                                    schema,
                                    runtime.control().reports(),
                                    runtime.control().reports()),
                            new UndeletableStore(schema, runtime.control().reports()),
                            runtime.scheduler()));
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
        JobTimers clusterJobTimers(
                MeterRegistry registry,
                ClusterAutoConfiguration.ClusterName name,
                ConfigurableListableBeanFactory beans,
                Environment environment) {
            return new JobTimers(registry, name.text(), ObservationUse.isForMetersOnly(beans, environment));
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
                ObjectProvider<ObservationRegistry> registry,
                ClusterAutoConfiguration.ClusterName name,
                ObjectProvider<JobTimers> timers) {
            JobTimers instead = timers.getIfAvailable();
            return new JobObservations(
                    registry.getIfUnique(() -> ObservationRegistry.NOOP),
                    name.text(),
                    instead == null || !instead.isActive());
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

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.store.JobLimitReports;
import dev.forge.cluster.internal.job.store.JobReports;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.workflow.Workflows;
import javax.sql.DataSource;
import org.springframework.aot.hint.annotation.RegisterReflectionForBinding;
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

/** Adds the health contributor and the endpoint if the application has the modules of Spring Boot they need. */
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
    @RegisterReflectionForBinding({
        NodesDescriptor.class,
        NodesDescriptor.NodeStateDescriptor.class,
        LocksDescriptor.class,
        JobsDescriptor.class,
        JobsDescriptor.JobDescriptor.class,
        JobsDescriptor.JobStatusDescriptor.class,
        JobsDescriptor.JobNameStateDescriptor.class,
        LimitsDescriptor.class,
        DemandDescriptor.class,
        CronsDescriptor.class,
        CronsDescriptor.CronStateDescriptor.class,
        DaemonsDescriptor.class,
        DaemonsDescriptor.DaemonStateDescriptor.class,
        WorkflowsDescriptor.class,
        WorkflowsDescriptor.RunDescriptor.class,
        WorkflowsDescriptor.RunStatusDescriptor.class
    })
    static class EndpointConfiguration {

        @Bean
        static UnknownParameters unknownClusterEndpointParameters() {
            return new UnknownParameters("forgecluster");
        }

        @Bean
        @ConditionalOnMissingBean
        @ConditionalOnAvailableEndpoint
        ClusterEndpoint clusterEndpoint(
                ClusterAutoConfiguration.ClusterName name,
                NodeRuntime runtime,
                Schema schema,
                ClusterProperties properties,
                EndpointValues values,
                Jobs jobs,
                JobHandlers handlers,
                Crons crons,
                Daemons daemons,
                ObjectProvider<Workflows> workflows) {
            DataSource control = runtime.control().reports();
            return new ClusterEndpoint(
                    name.text(),
                    runtime.node(),
                    new LeaderStore(schema, control),
                    new ClusterEndpoint.Resources(
                            new NodesResource(
                                    runtime.node(), new NodeReports(schema, control), new NodeStore(schema, control)),
                            new LocksResource(new LockStore(schema, control), values),
                            new JobsResource(jobs, new JobReports(schema, control), values),
                            new LimitsResource(jobs, new JobLimitReports(schema, control), handlers, values),
                            new BatchesResource(jobs, values),
                            new DemandResource(jobs::demand, properties.worker().drainTarget(), runtime.node()::nanos),
                            new CronsResource(crons, values),
                            new DaemonsResource(daemons, values),
                            workflows.stream()
                                    .findFirst()
                                    .map(all -> new WorkflowsResource(all, values))
                                    .orElse(null)));
        }

        @Bean
        EndpointValues clusterEndpointValues(
                JobEngine.Dependencies tools,
                ObjectProvider<SanitizingFunction> sanitizingFunctions,
                ClusterEndpointProperties properties) {
            return new EndpointValues(
                    new Sanitizer(sanitizingFunctions.orderedStream().toList()), tools.codec(), properties);
        }
    }
}

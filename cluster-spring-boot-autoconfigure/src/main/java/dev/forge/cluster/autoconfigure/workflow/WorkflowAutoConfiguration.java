// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.workflow;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.handler.JobLimits;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.work.JobProperties;
import dev.forge.cluster.autoconfigure.properties.work.WorkflowProperties;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.workflow.DefaultWorkflowOperations;
import dev.forge.cluster.internal.workflow.DefaultWorkflows;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings.SignalLimits;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.Workflows;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.annotation.Order;
import org.springframework.transaction.PlatformTransactionManager;

/** Configures workflows. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class WorkflowAutoConfiguration {

    // A component of the node, which must exist when the node joins.
    @Bean
    @Lazy(false)
    @Order(ComponentOrder.WORKFLOWS)
    WorkflowEngine clusterWorkflowEngine(
            ConfigurableListableBeanFactory beans,
            ClusterProperties properties,
            ClusterDatabase database,
            NodeRuntime runtime,
            JobEngine jobs,
            JobEngine.Dependencies tools,
            JobHandlers handlers,
            ObjectProvider<PlatformTransactionManager> managers) {
        JobHandler.Limits limits = new JobLimits(beans, properties.job()).usual();
        JobProperties.Retention kept = properties.job().retention();
        WorkflowProperties workflow = properties.workflow();
        return new WorkflowEngine(
                runtime.node(),
                jobs,
                handlers,
                new WorkflowEngine.Resources(tools, runtime.control().shared(), database.transactions(managers)),
                new WorkflowSettings(
                        limits.maxAttempts(),
                        limits.backoff(),
                        limits.jitter(),
                        new WorkflowSettings.Retention(kept.completed(), kept.failed()),
                        new WorkflowSettings.StrandedCheck(
                                workflow.readinessInterval(),
                                workflow.strandedScope() == WorkflowProperties.StrandedScope.CLUSTER),
                        new WorkflowSettings.Limits(
                                new SignalLimits(
                                        workflow.maxPendingSignals(),
                                        workflow.maxPendingSignalsSize().toBytes()),
                                workflow.maxHistorySize().toBytes())));
    }

    @Bean
    @Lazy(false)
    static ClusterWorkflowRegistrar clusterWorkflowRegistrar(
            ConfigurableListableBeanFactory beans, ObjectProvider<WorkflowEngine> engine) {
        return new ClusterWorkflowRegistrar(beans, engine);
    }

    @Bean
    @ConditionalOnMissingBean
    Workflows clusterWorkflows(NodeRuntime runtime, WorkflowEngine engine) {
        return new DefaultWorkflows(runtime.node(), engine);
    }

    @Bean
    @ConditionalOnMissingBean
    WorkflowOperations clusterWorkflowOperations(WorkflowEngine engine) {
        return new DefaultWorkflowOperations(engine);
    }
}

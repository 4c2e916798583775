// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.attention.AttentionReports;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.job.operate.JobRelationReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.ratelimit.RateLimitReports;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.Workflows;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ImportRuntimeHints;
import org.springframework.core.io.ResourceLoader;
import org.springframework.util.ClassUtils;

/** Adds {@link ClusterOperations} if the application has Actuator, whose sanitizing functions it uses. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = {
            "dev.forge.cluster.autoconfigure.attention.AttentionAutoConfiguration",
            "dev.forge.cluster.autoconfigure.audit.AuditAutoConfiguration",
            "dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration",
            "dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration",
            "dev.forge.cluster.autoconfigure.job.JobAutoConfiguration",
            "dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration"
        })
@ConditionalOnBean({ClusterLifecycle.class, Jobs.class, JobOperations.class, Crons.class, Daemons.class})
@ConditionalOnClass(Sanitizer.class)
@ImportRuntimeHints(ValueSanitizer.Hints.class)
public final class ClusterOperationsAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    ClusterOperations clusterOperations(AuditTrail trail, ObjectProvider<Resource> resources) {
        return new ClusterOperations(trail, resources.stream().toList());
    }

    @Bean
    ValueSanitizer clusterValueSanitizer(JobEngine.Dependencies tools, ObjectProvider<SanitizingFunction> functions) {
        return new ValueSanitizer(functions.orderedStream().toList(), tools.codec());
    }

    @Bean
    OverviewResource clusterOverviewResource(
            ClusterAutoConfiguration.ClusterName name,
            NodeRuntime runtime,
            Schema schema,
            ValueSanitizer values,
            NodesResource nodes,
            JobsResource jobs,
            DaemonsResource daemons) {
        var counts = new LinkedHashMap<String, Supplier<Map<String, Long>>>();
        counts.put("nodes", nodes::counts);
        counts.put("jobs", jobs::counts);
        counts.put("daemons", daemons::counts);
        var leaders = new LeaderStore(schema, runtime.control().reports());
        return new OverviewResource(name.text(), runtime.node(), leaders, values, counts);
    }

    @Bean
    NodesResource clusterNodesResource(NodeRuntime runtime, Schema schema, ValueSanitizer values) {
        DataSource control = runtime.control().reports();
        return new NodesResource(
                runtime.node(), new NodeReports(schema, control), new NodeStore(schema, control), values);
    }

    @Bean
    JobsResource clusterJobsResource(
            Jobs jobs, JobOperations operations, NodeRuntime runtime, Schema schema, ValueSanitizer values) {
        DataSource control = runtime.control().reports();
        return new JobsResource(
                jobs,
                operations,
                new JobsResource.Reports(
                        new JobReports(schema, control),
                        new JobNameStore(schema, control),
                        new JobRelationReports(schema, control),
                        new NodeReports(schema, control)),
                values);
    }

    @Bean
    LimitsResource clusterLimitsResource(
            JobOperations operations, JobHandlers handlers, NodeRuntime runtime, Schema schema, ValueSanitizer values) {
        var reports = new JobLimitReports(schema, runtime.control().reports());
        return new LimitsResource(operations, reports, handlers, values);
    }

    @Bean
    DemandResource clusterDemandResource(JobOperations operations, ClusterProperties properties, NodeRuntime runtime) {
        return new DemandResource(operations::demand, properties.worker().drainTarget(), runtime.node()::nanos);
    }

    @Bean
    JobNamesResource clusterJobNamesResource(
            JobOperations operations, DemandResource demand, LimitsResource limits, ValueSanitizer values) {
        return new JobNamesResource(operations, demand, limits, values);
    }

    @Bean
    BatchesResource clusterBatchesResource(Jobs jobs, JobOperations operations, ValueSanitizer values) {
        return new BatchesResource(jobs, operations, values);
    }

    @Bean
    Resource clusterHistoryResource(JobOperations operations, ValueSanitizer values) {
        return ListedResource.history(operations, values);
    }

    @Bean
    CronsResource clusterCronsResource(Crons crons, ValueSanitizer values) {
        return new CronsResource(crons, values);
    }

    @Bean
    DaemonsResource clusterDaemonsResource(Daemons daemons, ValueSanitizer values) {
        return new DaemonsResource(daemons, values);
    }

    @Bean
    Resource clusterLocksResource(NodeRuntime runtime, Schema schema, ValueSanitizer values) {
        return ListedResource.locks(new LockStore(schema, runtime.control().reports()), values);
    }

    @Bean
    Resource clusterRateLimitsResource(NodeRuntime runtime, Schema schema, ValueSanitizer values) {
        return ListedResource.rateLimits(
                new RateLimitReports(schema, runtime.control().reports()), values);
    }

    @Bean
    Resource clusterAttentionResource(AttentionReports reports, ValueSanitizer values) {
        return ListedResource.attention(reports, values);
    }

    @Bean
    AuditResource clusterAuditResource(AuditTrail trail, ResourceLoader classes, ValueSanitizer values) {
        boolean secured =
                ClassUtils.isPresent("org.springframework.security.web.SecurityFilterChain", classes.getClassLoader());
        return new AuditResource(secured, trail, values);
    }

    @Bean
    @ConditionalOnBean({Workflows.class, WorkflowOperations.class})
    WorkflowsResource clusterWorkflowsResource(
            ObjectProvider<Workflows> workflows,
            ObjectProvider<WorkflowOperations> operations,
            ValueSanitizer values,
            JobEngine.Dependencies tools) {
        return new WorkflowsResource(
                workflows.stream().findFirst().orElseThrow(),
                operations.stream().findFirst().orElseThrow(),
                values,
                tools.codec());
    }

    @Bean
    @ConditionalOnBean(Workflows.class)
    WorkflowVersionsResource clusterWorkflowVersionsResource(NodeRuntime runtime, Schema schema) {
        DataSource control = runtime.control().reports();
        return new WorkflowVersionsResource(new WorkflowReports(schema, control), new WorkflowKeeping(schema, control));
    }
}

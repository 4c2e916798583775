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
import dev.forge.cluster.workflow.Workflows;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
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
@ConditionalOnBean({ClusterLifecycle.class, Jobs.class, Crons.class, Daemons.class})
@ConditionalOnClass(Sanitizer.class)
@ImportRuntimeHints(ValueSanitizer.Hints.class)
public final class ClusterOperationsAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    ClusterOperations clusterOperations(
            ClusterAutoConfiguration.ClusterName name,
            NodeRuntime runtime,
            Schema schema,
            ClusterProperties properties,
            JobEngine.Dependencies tools,
            JobHandlers handlers,
            Jobs jobs,
            Crons crons,
            Daemons daemons,
            AuditTrail trail,
            AttentionReports attention,
            ObjectProvider<Workflows> workflows,
            ObjectProvider<SanitizingFunction> sanitizingFunctions,
            ResourceLoader classes) {
        boolean secured =
                ClassUtils.isPresent("org.springframework.security.web.SecurityFilterChain", classes.getClassLoader());
        DataSource control = runtime.control().reports();
        var values = new ValueSanitizer(sanitizingFunctions.orderedStream().toList(), tools.codec());
        var nodeReports = new NodeReports(schema, control);
        var nodes = new NodesResource(runtime.node(), nodeReports, new NodeStore(schema, control), values);
        var jobsResource = new JobsResource(
                jobs,
                new JobsResource.Reports(
                        new JobReports(schema, control),
                        new JobNameStore(schema, control),
                        new JobRelationReports(schema, control),
                        nodeReports),
                values);
        var daemonsResource = new DaemonsResource(daemons, values);
        var limits = new LimitsResource(jobs, new JobLimitReports(schema, control), handlers, values);
        var demand = new DemandResource(jobs::demand, properties.worker().drainTarget(), runtime.node()::nanos);
        var counts = new LinkedHashMap<String, Supplier<Map<String, Long>>>();
        counts.put("nodes", nodes::counts);
        counts.put("jobs", jobsResource::counts);
        counts.put("daemons", daemonsResource::counts);
        List<Resource> resources = new ArrayList<>(List.of(
                new OverviewResource(name.text(), runtime.node(), new LeaderStore(schema, control), values, counts),
                nodes,
                ListedResource.locks(new LockStore(schema, control), values),
                ListedResource.rateLimits(new RateLimitReports(schema, control), values),
                jobsResource,
                limits,
                new JobNamesResource(jobs, demand, limits, values),
                ListedResource.history(jobs, values),
                new BatchesResource(jobs, values),
                demand,
                new CronsResource(crons, values),
                daemonsResource,
                ListedResource.attention(attention, values),
                new AuditResource(secured, trail, values)));
        workflows.stream().findFirst().ifPresent(all -> {
            resources.add(new WorkflowsResource(all, values, tools.codec()));
            resources.add(new WorkflowVersionsResource(
                    new WorkflowReports(schema, control), new WorkflowKeeping(schema, control)));
        });
        return new ClusterOperations(trail, resources);
    }
}

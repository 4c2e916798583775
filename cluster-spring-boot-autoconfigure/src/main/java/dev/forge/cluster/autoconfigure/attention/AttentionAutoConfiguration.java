// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.history.JobHistoryReports;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobFailureReports;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.operations.JobOperations;
import java.time.Duration;
import java.util.List;
import javax.sql.DataSource;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;

/** Configures the list of what needs attention. */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = {
            "dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration",
            "dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration",
            "dev.forge.cluster.autoconfigure.job.JobAutoConfiguration"
        })
@Conditional(OnClusterEnabled.class)
public final class AttentionAutoConfiguration {

    private static final Duration LIFETIME = Duration.ofSeconds(5);

    @Bean
    @ConditionalOnMissingBean
    AttentionReports clusterAttentionReports(
            NodeRuntime runtime,
            Schema schema,
            JobOperations operations,
            JobHandlers handlers,
            Crons crons,
            Daemons daemons) {
        DataSource control = runtime.control().reports();
        var workflows = new WorkflowReports(schema, control);
        return new AttentionReports(
                List.of(
                        new JobAttention(
                                operations,
                                handlers,
                                new JobHistoryReports(schema, control),
                                new JobDemandReports(schema, control),
                                new JobNameStore(schema, control)),
                        new FailureAttention(
                                handlers,
                                new JobFailureReports(schema, control),
                                new JobBatchReports(schema, control),
                                workflows),
                        new HandlerAttention(workflows, new WorkflowKeeping(schema, control), crons, daemons),
                        new NodeAttention(new NodeReports(schema, control), new JobScheduleStore(schema, control)),
                        new RetentionAttention(new UndeletableStore(schema, control))),
                new AttentionReports.Settings(AttentionThresholds.DEFAULTS, LIFETIME, runtime.node()::nanos));
    }
}

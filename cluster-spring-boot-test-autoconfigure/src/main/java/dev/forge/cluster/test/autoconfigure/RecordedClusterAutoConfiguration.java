// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.DisabledClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.MissingPayloadCodec;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.PayloadCodecConfiguration;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.Workflows;
import java.time.Clock;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;

/**
 * Provides the beans of the API in slices that have no cluster, such as {@code @WebMvcTest} and {@code @DataJpaTest}: {@link Jobs}
 * records what is enqueued, {@link JobOperations} searches it, and the others reject calls.
 *
 * <p>Without an annotation that component scans look for: an application that scans this package must not get a recorder.
 */
@ConditionalOnMissingBean(NodeRuntime.class)
@Import(PayloadCodecConfiguration.class)
public final class RecordedClusterAutoConfiguration {

    private static final String REASON = "this test is a slice without a cluster";

    @Bean
    RecordedJobs recordedClusterJobs(ObjectProvider<PayloadCodec> codec, ObjectProvider<Clock> clock) {
        return new RecordedJobs(codec.getIfAvailable(MissingPayloadCodec::new), clock.getIfUnique(Clock::systemUTC));
    }

    @Bean
    @ConditionalOnMissingBean
    Jobs clusterJobs(RecordedJobs recorded) {
        return recorded.jobs();
    }

    @Bean
    @ConditionalOnMissingBean
    JobOperations clusterJobOperations(RecordedJobs recorded) {
        return recorded.operations();
    }

    @Bean
    @ConditionalOnMissingBean
    Crons clusterCrons() {
        return rejecting(Crons.class);
    }

    @Bean
    @ConditionalOnMissingBean
    Daemons clusterDaemons() {
        return rejecting(Daemons.class);
    }

    @Bean
    @ConditionalOnMissingBean
    Workflows clusterWorkflows() {
        return rejecting(Workflows.class);
    }

    @Bean
    @ConditionalOnMissingBean
    WorkflowOperations clusterWorkflowOperations() {
        return rejecting(WorkflowOperations.class);
    }

    @Bean
    @ConditionalOnMissingBean
    Leadership clusterLeadership() {
        return rejecting(Leadership.class);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterNodes clusterNodes() {
        return rejecting(ClusterNodes.class);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterLocks clusterLocks() {
        return rejecting(ClusterLocks.class);
    }

    @Bean
    @ConditionalOnMissingBean
    RateLimiter clusterRateLimiter() {
        return rejecting(RateLimiter.class);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterStateStore clusterStateStore() {
        return rejecting(ClusterStateStore.class);
    }

    @Bean
    @ConditionalOnMissingBean
    StartupCoordinator clusterStartupCoordinator() {
        return rejecting(StartupCoordinator.class);
    }

    @Bean
    @ConditionalOnMissingBean
    NodeIdentityProvider clusterNodeIdentityProvider() {
        return rejecting(NodeIdentityProvider.class);
    }

    @Bean
    @ConditionalOnMissingBean
    AuditTrail clusterAuditTrail() {
        return rejecting(AuditTrail.class);
    }

    private static <T> T rejecting(Class<T> type) {
        return DisabledClusterAutoConfiguration.rejecting(
                type, REASON, "Use @ClusterTest, or define a %s bean (@MockitoBean).".formatted(type.getSimpleName()));
    }
}

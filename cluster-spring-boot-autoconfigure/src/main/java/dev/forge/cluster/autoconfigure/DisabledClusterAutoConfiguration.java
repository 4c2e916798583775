// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterDisabledException;
import dev.forge.cluster.audit.AuditTrail;
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
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.NoneNestedConditions;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Import;

/**
 * Provides the beans of the API if {@code forge.cluster.enabled} is false, so that the application starts without a DataSource.
 * Calls throw {@link ClusterDisabledException}, except queries of {@link Leadership} that can be answered.
 */
@AutoConfiguration
@Conditional(DisabledClusterAutoConfiguration.OnClusterDisabled.class)
@Import(PayloadCodecConfiguration.class)
public final class DisabledClusterAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** The types that get a proxy, for the hints of a native image. */
    public static final List<Class<?>> TYPES = List.of(
            Jobs.class,
            JobOperations.class,
            Crons.class,
            Daemons.class,
            Workflows.class,
            WorkflowOperations.class,
            Leadership.class,
            ClusterLocks.class,
            RateLimiter.class,
            ClusterStateStore.class,
            StartupCoordinator.class,
            ClusterNodes.class,
            NodeIdentityProvider.class,
            AuditTrail.class);

    @Bean
    @ConditionalOnMissingBean
    Jobs clusterJobs() {
        return rejecting(Jobs.class);
    }

    @Bean
    @ConditionalOnMissingBean
    JobOperations clusterJobOperations() {
        return rejecting(JobOperations.class);
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

    @Bean
    static SmartInitializingSingleton clusterDisabledNotice() {
        return () -> log.info("Forge Cluster is disabled (forge.cluster.enabled=false): methods with @ClusterJob,"
                + " @ClusterCron, @ClusterDaemon and @ClusterWorkflow do not run, @RateLimited does not limit, and calls"
                + " of Jobs and the other beans throw ClusterDisabledException.");
    }

    private static <T> T rejecting(Class<T> type) {
        return rejecting(
                type,
                "the cluster is disabled (forge.cluster.enabled=false)",
                "Set forge.cluster.enabled=true, or define a %s bean (in a test @MockitoBean) that handles the call."
                        .formatted(type.getSimpleName()));
    }

    /**
     * Returns a bean of the API that rejects all calls that need a cluster.
     *
     * @param reason why there is none
     * @param remedy what to do
     */
    public static <T> T rejecting(Class<T> type, String reason, String remedy) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, new Rejecting(type, reason, remedy)));
    }

    /** Rejects all calls, including those of default methods. */
    private record Rejecting(Class<?> type, String reason, String remedy) implements InvocationHandler {

        @Override
        public @Nullable Object invoke(Object proxy, Method method, Object @Nullable [] arguments) {
            String name = method.getName();
            if (method.getDeclaringClass() == Object.class) {
                return switch (name) {
                    case "equals" -> arguments != null && proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> "%s (%s)".formatted(type.getSimpleName(), reason);
                };
            }
            if (type == StartupCoordinator.class && name.equals("once") && arguments != null) {
                log.info(
                        "Startup action '{}' version '{}' runs on this node and is not recorded: {}.",
                        arguments[0],
                        arguments[1],
                        reason);
                // The application needs the data of the action even without a cluster.
                ((Runnable) arguments[arguments.length - 1]).run();
                return true;
            }
            if (type == Leadership.class) {
                switch (name) {
                    // As on a node that is not a candidate.
                    case "join", "leave" -> {
                        return null;
                    }
                    case "isLeader" -> {
                        return false;
                    }
                    case "term", "fencingToken" -> {
                        return OptionalLong.empty();
                    }
                    default -> {
                        // Rejected below.
                    }
                }
            }
            throw new ClusterDisabledException("%s.%s: %s. %s".formatted(type.getSimpleName(), name, reason, remedy));
        }
    }

    static final class OnClusterDisabled extends NoneNestedConditions {

        OnClusterDisabled() {
            super(ConfigurationPhase.PARSE_CONFIGURATION);
        }

        @Conditional(OnClusterEnabled.class)
        static class Enabled {}
    }
}

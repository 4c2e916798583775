// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ComponentOrder;
import dev.forge.cluster.autoconfigure.MissingPayloadCodec;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.handler.HandlerRegistrar;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.work.JobProperties;
import dev.forge.cluster.autoconfigure.properties.work.WorkerProperties;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.job.DefaultJobOperations;
import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.history.JobHistoryCounters;
import dev.forge.cluster.internal.job.history.JobHistoryKeeper;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.job.observe.JobListener;
import dev.forge.cluster.job.operations.JobOperations;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.thread.Threading;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.core.env.Environment;
import org.springframework.util.function.SingletonSupplier;

/** Configures jobs and workers. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
public final class JobAutoConfiguration {

    @Bean
    JobHandlers clusterJobHandlers(ConfigurableListableBeanFactory beans, ObjectProvider<HandlerRegistrar> registrars) {
        return new JobHandlers(() -> HandlerRegistrar.complete(beans, registrars));
    }

    @Bean
    static ClusterJobRegistrar clusterJobRegistrar(
            ConfigurableListableBeanFactory beans,
            JobHandlers handlers,
            ClusterProperties properties,
            ClusterDatabase database) {
        return new ClusterJobRegistrar(beans, handlers, properties, database);
    }

    @Bean
    @Order(ComponentOrder.SLOTS)
    JobSlots clusterJobSlots(ClusterProperties properties, CronDeclarations crons, ClusterDatabase database) {
        return new JobSlots(properties, crons, database);
    }

    /** Innermost of the monitors, so that listeners run within the observation of the attempt. */
    @Bean
    @Order(Ordered.HIGHEST_PRECEDENCE)
    JobListeners clusterJobListeners(
            ClusterProperties properties, ObjectProvider<JobListener> listeners, ApplicationEventPublisher publisher) {
        return new JobListeners(() -> {
            List<JobListener> all = new ArrayList<>(listeners.orderedStream().toList());
            if (properties.job().events() != JobProperties.Events.NONE) {
                all.add(new JobEvents(publisher, properties.job().events()));
            }
            return all;
        });
    }

    @Bean
    @ConditionalOnBooleanProperty(name = "forge.cluster.history.enabled", matchIfMissing = true)
    JobHistoryCounters clusterJobHistoryCounters() {
        return new JobHistoryCounters();
    }

    @Bean
    @Order(ComponentOrder.HISTORY)
    @ConditionalOnBooleanProperty(name = "forge.cluster.history.enabled", matchIfMissing = true)
    JobHistoryKeeper clusterJobHistoryKeeper(
            ClusterProperties properties, NodeRuntime runtime, JobHistoryCounters counters, JobEngine engine) {
        return new JobHistoryKeeper(
                runtime.node(), counters, properties.history().retention(), engine::names);
    }

    @Bean
    JobEngine.Dependencies clusterJobTools(
            ClusterDatabase database,
            ClusterProperties properties,
            ObjectProvider<PayloadCodec> codec,
            ObjectProvider<JobMonitor> monitors,
            ObjectProvider<JobInterceptor> interceptors,
            ObjectProvider<ClusterCoordinator> coordinator) {
        return new JobEngine.Dependencies(
                database.application(),
                codec.getIfAvailable(MissingPayloadCodec::new),
                JobMonitors.of(monitors.orderedStream().toList()),
                SingletonSupplier.of(() -> interceptors.orderedStream().toList()),
                coordinator.getIfAvailable(),
                Math.toIntExact(properties.job().maxPayloadSize().toBytes()));
    }

    @Bean
    @Order(ComponentOrder.JOBS)
    JobEngine clusterJobEngine(
            ClusterProperties properties,
            NodeRuntime runtime,
            JobHandlers handlers,
            JobEngine.Dependencies tools,
            JobSlots slots,
            Environment environment) {
        return new JobEngine(
                runtime.node(),
                work(properties, slots, Threading.VIRTUAL.isActive(environment)),
                handlers,
                tools,
                properties.worker().routes());
    }

    @Bean
    @ConditionalOnMissingBean
    Jobs clusterJobs(NodeRuntime runtime, JobEngine engine, JobEngine.Dependencies tools, JobHandlers handlers) {
        return new DefaultJobs(
                runtime.node(), engine, handlers, tools, runtime.control().shared());
    }

    @Bean
    @ConditionalOnMissingBean
    JobOperations clusterJobOperations(
            NodeRuntime runtime, JobEngine engine, JobEngine.Dependencies tools, JobHandlers handlers) {
        return new DefaultJobOperations(
                runtime.node(), engine, handlers, tools, runtime.control().shared());
    }

    private static CrashRule crash(JobProperties job) {
        return new CrashRule(
                job.crashPolicy() == JobProperties.CrashPolicy.FAIL, job.maxAttempts(), job.maxRecoveries());
    }

    private static WorkerSettings work(ClusterProperties properties, JobSlots slots, boolean virtualThreads) {
        WorkerProperties worker = properties.worker();
        JobProperties job = properties.job();
        List<LaneSettings> lanes = new ArrayList<>();
        lanes.add(new LaneSettings(WorkerProperties.DEFAULT_EXECUTOR, slots::jobs, worker.prefetch(), virtualThreads));
        worker.executors()
                .forEach((name, executor) -> lanes.add(
                        new LaneSettings(name, executor.maxConcurrentJobs(), worker.prefetch(), virtualThreads)));
        Duration grace = properties.sweep().startupGrace();
        return new WorkerSettings(
                worker.claiming(),
                worker.pollInterval(),
                lanes,
                slots::crons,
                new WorkerSettings.Leases(
                        job.leaseDuration(), job.heartbeatInterval(), job.claimStartTimeout(), crash(job)),
                new WorkerSettings.Keeping(
                        properties.sweep().interval(),
                        grace != null ? grace : job.leaseDuration(),
                        job.retention().completed(),
                        job.retention().failed()));
    }
}

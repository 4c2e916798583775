// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobWaitReports;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.leader.LeadershipLost;
import dev.forge.cluster.node.NodeStatus;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.context.event.EventListener;
import org.springframework.dao.DataAccessException;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.transaction.TransactionException;

/**
 * Gauges of the cluster. Only the metrics_aggregator publishes cluster-wide gauges, and removes them when it no longer leads;
 * otherwise a sum over all nodes would count everything several times.
 */
public final class ClusterMetrics implements DisposableBean {

    private static final Duration COUNT_INTERVAL = Duration.ofSeconds(10);
    private static final int MOST_LOGINS = 200_000;

    private final MeterRegistry registry;
    private final String cluster;
    private final Leadership leadership;
    private final Sources sources;
    private final MultiGauge jobs;
    private final JobLimitGauges limits;
    private final MultiGauge daemons;
    private final MultiGauge workflows;
    private final MultiGauge undeletable;
    private final DemandGauges demand;
    private final List<Meter> clusterWide = new ArrayList<>();
    private @Nullable Future<?> counting;
    private volatile double oldestAge = Double.NaN;
    private volatile double pendingLogins = Double.NaN;
    private final ConcurrentHashMap<String, Boolean> roles = new ConcurrentHashMap<>();

    /** The sources of the cluster-wide gauges. */
    public record Sources(
            Node node,
            NodeReports nodes,
            JobReports jobs,
            JobWaitReports waits,
            JobHandlers handlers,
            Supplier<JobDemand> demand,
            Duration drainTarget,
            DaemonStore daemons,
            WorkflowReports workflows,
            StateStore states,
            UndeletableStore undeletable,
            TaskScheduler scheduler) {}

    public ClusterMetrics(MeterRegistry registry, String cluster, Leadership leadership, Sources sources) {
        this.cluster = cluster;
        this.registry = registry;
        this.leadership = leadership;
        this.sources = sources;
        this.jobs = MultiGauge.builder("forge.cluster.jobs")
                .description("Unfinished jobs by name and status; 10,000 pending ones of a name mean that many or more."
                        + " Names beyond a thousand that no node has a handler for are counted as (other)")
                .tag("cluster", cluster)
                .register(registry);
        this.limits = new JobLimitGauges(registry, cluster, sources.waits, sources.handlers);
        this.daemons = MultiGauge.builder("forge.cluster.daemons")
                .description("Instances of daemons by name and status")
                .tag("cluster", cluster)
                .register(registry);
        this.workflows = MultiGauge.builder("forge.cluster.workflows")
                .description(
                        "Unfinished runs of workflows by version and status; 10,000 of them mean that many or more")
                .tag("cluster", cluster)
                .register(registry);
        this.undeletable = MultiGauge.builder("forge.cluster.undeletable.rows")
                .description("Rows that cannot be deleted after their retention, by table")
                .tag("cluster", cluster)
                .register(registry);
        this.demand = new DemandGauges(registry, cluster, sources.drainTarget);
        List.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                .forEach(this::gaugesOf);
        sources.node.elector().onJoin(this::gaugesOf);
    }

    @EventListener
    void acquired(LeadershipAcquired event) {
        gaugesOf(event.role());
        if (event.role().equals(Leadership.METRICS_AGGREGATOR)) {
            synchronized (clusterWide) {
                forget();
                for (NodeStatus status : NodeStatus.values()) {
                    String word = EnumText.hyphenated(status);
                    clusterWide.add(Gauge.builder("forge.cluster.nodes", () -> count(word))
                            .description("Nodes of the cluster by status")
                            .tag("cluster", cluster)
                            .tag("status", word)
                            .register(registry));
                }
                clusterWide.add(Gauge.builder("forge.cluster.queue.oldest.age", () -> oldestAge)
                        .description("How long the oldest due job has been waiting")
                        .baseUnit("seconds")
                        .tag("cluster", cluster)
                        .register(registry));
                clusterWide.add(Gauge.builder("forge.cluster.oauth2.pending", () -> pendingLogins)
                        .description("OAuth2 logins that have begun and are neither completed nor expired")
                        .tag("cluster", cluster)
                        .register(registry));
                counting = sources.scheduler.scheduleWithFixedDelay(this::count, COUNT_INTERVAL);
            }
        }
    }

    @EventListener
    void lost(LeadershipLost event) {
        if (event.role().equals(Leadership.METRICS_AGGREGATOR)) {
            synchronized (clusterWide) {
                forget();
            }
        }
    }

    private void forget() {
        clusterWide.forEach(registry::remove);
        clusterWide.clear();
        jobs.register(List.of(), true);
        limits.forget();
        daemons.register(List.of(), true);
        workflows.register(List.of(), true);
        undeletable.register(List.of(), true);
        demand.clear();
        if (counting != null) {
            counting.cancel(false);
            counting = null;
        }
    }

    private void count() {
        countJobs();
        countLimits();
        countDemand();
        countDaemons();
        countWorkflows();
        countLogins();
        countUndeletable();
    }

    private void countUndeletable() {
        List<MultiGauge.Row<?>> rows = new ArrayList<>();
        try {
            sources.undeletable
                    .counts()
                    .forEach((table, count) -> rows.add(MultiGauge.Row.of(Tags.of("table", table), count)));
        } catch (DataAccessException e) {
            // No value is better than an outdated one.
            rows.clear();
        }
        synchronized (clusterWide) {
            if (counting != null) {
                undeletable.register(rows, true);
            }
        }
    }

    private void countLogins() {
        try {
            pendingLogins = sources.states.pendingLogins(MOST_LOGINS);
        } catch (DataAccessException | TransactionException e) {
            pendingLogins = Double.NaN;
        }
    }

    public void countWorkflows() {
        List<MultiGauge.Row<?>> rows = new ArrayList<>();
        try {
            sources.workflows
                    .unfinished()
                    .forEach(count -> rows.add(MultiGauge.Row.of(
                            Tags.of(
                                    "workflow",
                                    count.version().workflow(),
                                    "version",
                                    count.version().version(),
                                    "status",
                                    EnumText.underscored(count.status())),
                            count.runs())));
        } catch (DataAccessException e) {
            rows.clear();
        }
        synchronized (clusterWide) {
            if (counting != null) {
                workflows.register(rows, true);
            }
        }
    }

    public void countDaemons() {
        List<MultiGauge.Row<?>> rows = new ArrayList<>();
        try {
            sources.daemons
                    .counts()
                    .forEach(count -> rows.add(MultiGauge.Row.of(
                            Tags.of("daemon", count.name(), "status", EnumText.hyphenated(count.status())),
                            count.instances())));
        } catch (DataAccessException e) {
            rows.clear();
        }
        synchronized (clusterWide) {
            if (counting != null) {
                daemons.register(rows, true);
            }
        }
    }

    /** Counts in the background, because counting many jobs takes too long for a scrape. */
    void countJobs() {
        List<MultiGauge.Row<?>> rows = new ArrayList<>();
        double oldest = Double.NaN;
        try {
            sources.jobs
                    .unfinished()
                    .forEach(count -> rows.add(MultiGauge.Row.of(
                            Tags.of("job", count.name(), "status", EnumText.hyphenated(count.status())),
                            count.jobs())));
            oldest = sources.jobs.oldestAge().toMillis() / 1000.0;
        } catch (DataAccessException e) {
            // No value is better than an outdated one.
            rows.clear();
        }
        synchronized (clusterWide) {
            if (counting != null) {
                jobs.register(rows, true);
                oldestAge = oldest;
            }
        }
    }

    /** Counts the jobs of names with limits. */
    void countLimits() {
        List<JobWaitReports.LimitedName> names = limits.count();
        synchronized (clusterWide) {
            if (counting != null) {
                limits.show(names);
            }
        }
    }

    void countDemand() {
        JobDemand latest = null;
        try {
            latest = sources.demand.get();
        } catch (DataAccessException | TransactionException e) {
            // No value is better than an outdated one.
            latest = null;
        }
        synchronized (clusterWide) {
            if (counting != null && latest != null) {
                demand.publish(latest);
            } else {
                demand.clear();
            }
        }
    }

    private void gaugesOf(String role) {
        roles.computeIfAbsent(role, r -> {
            Gauge.builder("forge.cluster.leader", () -> leadership.isLeader(r) ? 1 : 0)
                    .description("Whether this node leads the role")
                    .tag("cluster", cluster)
                    .tag("role", r)
                    .register(registry);
            Gauge.builder("forge.cluster.leader.term", () -> leadership.term(r).orElse(0))
                    .description("The term in which this node leads the role, 0 if it does not")
                    .tag("cluster", cluster)
                    .tag("role", r)
                    .register(registry);
            return true;
        });
    }

    /**
     * Removes the gauges of this cluster. They refer to the application, and other code may keep the registry: Micrometer's metrics
     * of Logback do so after the end of the application. Counters and timers refer to nothing, and a registry that outlives the
     * application may still publish them.
     */
    @Override
    public void destroy() {
        registry.getMeters().stream()
                .filter(meter -> meter instanceof Gauge
                        && meter.getId().getName().startsWith("forge.cluster.")
                        && cluster.equals(meter.getId().getTag("cluster")))
                .forEach(registry::remove);
    }

    private double count(String status) {
        try {
            return sources.nodes.all().stream()
                    .filter(node -> node.status().equals(status))
                    .count();
        } catch (DataAccessException e) {
            return Double.NaN;
        }
    }
}

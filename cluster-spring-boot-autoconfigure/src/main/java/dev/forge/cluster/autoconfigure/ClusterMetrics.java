package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.Leadership;
import dev.forge.cluster.LeadershipAcquired;
import dev.forge.cluster.LeadershipLost;
import dev.forge.cluster.NodeStatus;
import dev.forge.cluster.internal.store.NodeStore;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.context.event.EventListener;
import org.springframework.dao.DataAccessException;

/**
 * Gauges of the cluster. What describes the whole of it is published by the metrics_aggregator alone, which takes its
 * series away when it no longer leads: otherwise a sum over nodes would count everything several times.
 */
final class ClusterMetrics {

    private final MeterRegistry registry;
    private final String cluster;
    private final Leadership leadership;
    private final NodeStore nodes;
    private final List<Meter> clusterWide = new ArrayList<>();
    private final ConcurrentHashMap<String, Boolean> roles = new ConcurrentHashMap<>();

    ClusterMetrics(MeterRegistry registry, String cluster, Leadership leadership, NodeStore nodes) {
        this.cluster = cluster;
        this.registry = registry;
        this.leadership = leadership;
        this.nodes = nodes;
        List.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                .forEach(this::gaugesOf);
    }

    @EventListener
    void acquired(LeadershipAcquired event) {
        gaugesOf(event.role());
        if (event.role().equals(Leadership.METRICS_AGGREGATOR)) {
            synchronized (clusterWide) {
                for (NodeStatus status : NodeStatus.values()) {
                    String word = ClusterLifecycle.word(status);
                    clusterWide.add(Gauge.builder("forge.cluster.nodes", () -> count(word))
                            .description("Nodes of the cluster by status")
                            .tag("cluster", cluster)
                            .tag("status", word)
                            .register(registry));
                }
            }
        }
    }

    @EventListener
    void lost(LeadershipLost event) {
        if (event.role().equals(Leadership.METRICS_AGGREGATOR)) {
            synchronized (clusterWide) {
                clusterWide.forEach(registry::remove);
                clusterWide.clear();
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

    private double count(String status) {
        try {
            return nodes.all().stream()
                    .filter(node -> node.status().equals(status))
                    .count();
        } catch (DataAccessException e) {
            return Double.NaN;
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;

/**
 * Reports the health of the node. All details come from memory, never from the database: a health check must not hang when the
 * database does.
 */
final class ClusterHealth {

    /** The component that reports whether this node has the code of all workflow runs in flight. */
    static final String WORKFLOWS = "workflows";

    /** The component that reports blocked fences. Not part of readiness: the node still serves requests. */
    static final String FENCES = "fences";

    private static final int MAX_STUCK_HANDLERS = 10;

    private final Node node;
    private final JobEngine engine;
    private final Schema schema;
    private final ClusterProperties properties;
    private final @Nullable WorkflowEngine workflows;

    /** @param workflows null if the application has no workflow engine */
    ClusterHealth(
            Node node,
            JobEngine engine,
            Schema schema,
            ClusterProperties properties,
            @Nullable WorkflowEngine workflows) {
        this.workflows = workflows;
        this.node = node;
        this.engine = engine;
        this.schema = schema;
        this.properties = properties;
    }

    CompositeHealthContributor contributor(WakeupHealth wakeup) {
        Map<String, HealthContributor> parts = new TreeMap<>();
        parts.put("node", (HealthIndicator) this::node);
        parts.put("leadership", (HealthIndicator) this::leadership);
        parts.put(FENCES, (HealthIndicator) this::fences);
        parts.put("schema", (HealthIndicator) this::schema);
        parts.put("workers", (HealthIndicator) this::workers);
        parts.put("wakeup", wakeup);
        WorkflowEngine flows = workflows;
        if (flows != null) {
            parts.put(WORKFLOWS, (HealthIndicator) () -> workflows(flows.isStranded()));
        }
        return CompositeHealthContributor.fromMap(parts);
    }

    /** Contains no numbers: {@link ReadinessMembership} shows it to every user. */
    private static Health workflows(boolean stranded) {
        return (stranded ? Health.outOfService() : Health.up())
                .withDetail(WORKFLOWS, !stranded)
                .build();
    }

    Health node() {
        Health.Builder health = switch (node.state()) {
            case STOPPED, DRAINING -> Health.outOfService();
            case RUNNING -> Health.up();
        };
        health.withDetail("state", EnumText.hyphenated(node.state()))
                .withDetail("name", node.identity().name());
        if (node.state() != Node.State.STOPPED) {
            health.withDetail(
                    "millisSinceLastContact", node.contact().sinceLastAnswer().toMillis());
            if (properties.health().readinessIncludesDatabase()
                    && !node.contact().isRecent()) {
                health.down()
                        .withDetail(
                                "reason",
                                node.membership().isReadOnly()
                                        ? "the database is read-only"
                                        : "the database does not respond");
            }
            if (node.requiredLeadership().isUnready()) {
                health.outOfService()
                        .withDetail(
                                "reason",
                                "forge.cluster.node.mode is leader, but this node does not lead;"
                                        + " see forge.cluster.node.on-lost-leadership");
            }
            List<String> stuck = node.stuckLoops();
            if (!stuck.isEmpty()) {
                health.down().withDetail("stuckLoops", stuck);
            }
        }
        return health.build();
    }

    Health leadership() {
        // UP without a leader, too: a follower is healthy, and a cluster without a leader still serves requests.
        Health.Builder health = Health.up().withDetail("leads", node.elector().applicationRolesHeld());
        if (!node.peers().hasLiveCandidate()) {
            health.withDetail("warning", "no live scheduler candidate");
        }
        Set<String> withoutLock = node.elector().rolesWithoutLock();
        if (!withoutLock.isEmpty()) {
            // Another session holds the advisory locks of these roles; the node leads by its leases alone.
            health.withDetail("leadsWithoutLock", withoutLock);
        }
        return health.build();
    }

    Health fences() {
        Map<String, Instant> blocked = node.fences().byRole();
        return blocked.isEmpty()
                ? Health.up().build()
                : Health.down()
                        .withDetail("reason", "another session holds row locks in forge_leaders; see pg_locks")
                        .withDetail("blockedSince", blocked)
                        .build();
    }

    Health workers() {
        Health.Builder health = Health.up().withDetail("working", engine.isWorking());
        if (engine.isWorking()) {
            health.withDetail("slots", engine.slots())
                    .withDetail("executors", engine.lanes())
                    .withDetail("overloaded", engine.isOverloaded());
        }
        List<StuckHandler> stuck = engine.stuckHandlers();
        if (!stuck.isEmpty()) {
            // UP: the other slots still work, and neither rejecting requests nor a restart would end the handler
            // sooner.
            health.withDetail("stuckHandlers", stuck.size())
                    .withDetail(
                            "warning",
                            stuck.stream()
                                    .limit(MAX_STUCK_HANDLERS)
                                    .map(one -> "%s: %s; its handler has ignored the interrupt for %d s"
                                            .formatted(
                                                    one.label(),
                                                    one.cause(),
                                                    one.forTime().toSeconds()))
                                    .toList());
        }
        if (engine.unreadableJobs() > 0) {
            health.withDetail("unreadableJobs", engine.unreadableJobs());
        }
        String claimProblem = engine.claimProblem();
        if (claimProblem != null) {
            health.down().withDetail("reason", claimProblem);
        }
        if (engine.isCrowded()) {
            health.down()
                    .withDetail(
                            "reason",
                            "forge.cluster.worker.claiming (false) requires that this node is the only worker, but there are %d;"
                                            .formatted(node.peers().liveWorkers())
                                    + " it runs no jobs");
        }
        return health.build();
    }

    Health schema() {
        return Health.up()
                .withDetail("name", schema.name())
                .withDetail("version", schema.version())
                .build();
    }
}

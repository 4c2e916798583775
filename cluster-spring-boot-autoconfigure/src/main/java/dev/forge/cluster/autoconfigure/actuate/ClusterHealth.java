package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.WakeupChannel;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.PropertyRules;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.ClusterCoordinator;
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

/** How the node fares. From memory, never from the database: a health check must not hang where the node does. */
final class ClusterHealth {

    /** Whether this node can go on with all runs of workflows that are in flight. */
    static final String WORKFLOWS = "workflows";

    /** Whether fenced writes and elections get through. Not part of readiness: the node serves requests all the same. */
    static final String FENCES = "fences";

    private static final int MOST_STUCK = 10;

    private final Node node;
    private final JobEngine engine;
    private final Schema schema;
    private final ClusterProperties properties;
    private final @Nullable ClusterCoordinator coordinator;
    private final @Nullable WorkflowEngine workflows;

    /** @param coordinator carries news in place of PostgreSQL, if anything does */
    ClusterHealth(
            Node node,
            JobEngine engine,
            Schema schema,
            ClusterProperties properties,
            @Nullable ClusterCoordinator coordinator,
            @Nullable WorkflowEngine workflows) {
        this.workflows = workflows;
        this.node = node;
        this.engine = engine;
        this.schema = schema;
        this.properties = properties;
        this.coordinator = coordinator;
    }

    CompositeHealthContributor contributor() {
        Map<String, HealthContributor> parts = new TreeMap<>();
        parts.put("node", (HealthIndicator) this::node);
        parts.put("leadership", (HealthIndicator) this::leadership);
        parts.put(FENCES, (HealthIndicator) this::fences);
        parts.put("schema", (HealthIndicator) this::schema);
        parts.put("workers", (HealthIndicator) this::workers);
        parts.put("wakeup", (HealthIndicator) this::wakeup);
        WorkflowEngine flows = workflows;
        if (flows != null) {
            parts.put(WORKFLOWS, (HealthIndicator) () -> workflows(flows.isStranded()));
        }
        return CompositeHealthContributor.fromMap(parts);
    }

    /** Without numbers: this is shown to everybody. */
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
        health.withDetail("state", ClusterLifecycle.word(node.state()))
                .withDetail("name", node.identity().name());
        if (node.state() != Node.State.STOPPED) {
            health.withDetail("millisSinceLastContact", node.sinceLastContact().toMillis());
            if (properties.health().readinessIncludesDatabase() && !node.isInContact()) {
                health.down()
                        .withDetail(
                                "reason",
                                node.isReadOnly() ? "the database is read-only" : "the database does not answer");
            }
            if (node.isUnreadyWithoutLeadership()) {
                health.outOfService()
                        .withDetail(
                                "reason",
                                "forge.cluster.node.mode (leader): this node does not lead;"
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
        // A follower is as healthy as a leader, and a cluster without one still serves requests.
        Health.Builder health = Health.up().withDetail("leads", node.rolesLed());
        if (!node.hasLiveCandidate()) {
            health.withDetail("warning", "no live scheduler candidate");
        }
        Set<String> withoutLock = node.rolesLedWithoutLock();
        if (!withoutLock.isEmpty()) {
            // Another session holds their advisory locks: the node leads by its leases.
            health.withDetail("leadsWithoutLock", withoutLock);
        }
        return health.build();
    }

    Health fences() {
        Map<String, Instant> blocked = node.blockedFences();
        return blocked.isEmpty()
                ? Health.up().build()
                : Health.down()
                        .withDetail("reason", "another session holds rows of forge_leaders locked; see pg_locks")
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
            // UP: the other slots work, and turning requests away, or a restart, would not end the work any better.
            health.withDetail("stuckHandlers", stuck.size())
                    .withDetail(
                            "warning",
                            stuck.stream()
                                    .limit(MOST_STUCK)
                                    .map(one -> "%s: %s, and its handler has ignored the interrupt for %d s"
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
                            "forge.cluster.worker.claiming (false) wants this node to be the only worker, but there are %d;"
                                            .formatted(node.liveWorkers())
                                    + " it takes nothing");
        }
        return health.build();
    }

    Health wakeup() {
        // Without wake-ups work flows too, only later: no reason to turn requests away.
        Health.Builder health = Health.up().withDetail("type", wakeupType());
        if (!wakeupType().equals("none")) {
            boolean connected = engine.receivesWakeups();
            health.withDetail("connected", connected);
            if (!connected) {
                health.withDetail(
                        "warning",
                        "no news of work: workers poll every "
                                + PropertyRules.text(properties.worker().pollInterval()));
            }
        }
        return health.build();
    }

    private String wakeupType() {
        if (coordinator == null) {
            return "postgres";
        }
        return coordinator instanceof WakeupChannel channel ? channel.type() : "custom";
    }

    Health schema() {
        return Health.up()
                .withDetail("name", schema.name())
                .withDetail("version", schema.version())
                .build();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atMost;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.shorter;

import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.autoconfigure.properties.node.DetectionProperties;
import dev.forge.cluster.autoconfigure.properties.node.DirectConnectionProperties;
import dev.forge.cluster.autoconfigure.properties.node.HeartbeatProperties;
import dev.forge.cluster.autoconfigure.properties.node.LeaderProperties;
import dev.forge.cluster.autoconfigure.properties.node.LockProperties;
import dev.forge.cluster.autoconfigure.properties.node.NodeProperties;
import dev.forge.cluster.autoconfigure.properties.node.SchemaProperties;
import dev.forge.cluster.autoconfigure.properties.node.ShutdownProperties;
import dev.forge.cluster.autoconfigure.properties.node.StartupProperties;
import dev.forge.cluster.autoconfigure.properties.node.WakeupProperties;
import dev.forge.cluster.autoconfigure.properties.web.AuditProperties;
import dev.forge.cluster.autoconfigure.properties.web.DashboardProperties;
import dev.forge.cluster.autoconfigure.properties.web.HealthProperties;
import dev.forge.cluster.autoconfigure.properties.web.OAuth2Properties;
import dev.forge.cluster.autoconfigure.properties.web.OperationsProperties;
import dev.forge.cluster.autoconfigure.properties.web.RateLimitProperties;
import dev.forge.cluster.autoconfigure.properties.web.WebProperties;
import dev.forge.cluster.autoconfigure.properties.work.CronProperties;
import dev.forge.cluster.autoconfigure.properties.work.DaemonProperties;
import dev.forge.cluster.autoconfigure.properties.work.HistoryProperties;
import dev.forge.cluster.autoconfigure.properties.work.JobProperties;
import dev.forge.cluster.autoconfigure.properties.work.SweepProperties;
import dev.forge.cluster.autoconfigure.properties.work.WorkerProperties;
import dev.forge.cluster.autoconfigure.properties.work.WorkflowProperties;
import dev.forge.cluster.leader.LeadershipLossAction;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.NestedConfigurationProperty;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * All settings of the cluster. An unknown key under {@code forge.cluster} fails the start, as an invalid value does.
 *
 * @param enabled Whether this application is part of a cluster. If false, the beans of the API can be injected but reject all calls.
 * @param name Name of the cluster in logs, metrics and the endpoint. Default: spring.application.name.
 * @param discovery How nodes find each other.
 * @param controlConnections Number of connections for the cluster's own statements, in addition to the application's pool; at most
 *     20.
 * @param foreignTransactions What a call of the API does that changes the cluster's tables while only a transaction of another
 *     DataSource is active. warn: changes them at once, and logs a warning for each place in the application. refuse: throws
 *     ForeignTransactionException and changes nothing. allow: changes them at once.
 */
@ConfigurationProperties(prefix = "forge.cluster", ignoreUnknownFields = false)
public record ClusterProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String name,
        @DefaultValue("postgres") Discovery discovery,
        @DefaultValue @NestedConfigurationProperty SchemaProperties schema,
        @DefaultValue @NestedConfigurationProperty DirectConnectionProperties directConnection,
        @DefaultValue("2") int controlConnections,
        @DefaultValue("warn") ForeignTransactions foreignTransactions,
        @DefaultValue @NestedConfigurationProperty NodeProperties node,
        @DefaultValue @NestedConfigurationProperty HeartbeatProperties heartbeat,
        @DefaultValue @NestedConfigurationProperty DetectionProperties detection,
        @DefaultValue @NestedConfigurationProperty LeaderProperties leader,
        @DefaultValue @NestedConfigurationProperty WorkerProperties worker,
        @DefaultValue @NestedConfigurationProperty JobProperties job,
        @DefaultValue @NestedConfigurationProperty SweepProperties sweep,
        @DefaultValue @NestedConfigurationProperty HistoryProperties history,
        @DefaultValue @NestedConfigurationProperty CronProperties cron,
        @DefaultValue @NestedConfigurationProperty DaemonProperties daemon,
        @DefaultValue @NestedConfigurationProperty ShutdownProperties shutdown,
        @DefaultValue @NestedConfigurationProperty LockProperties lock,
        @DefaultValue @NestedConfigurationProperty StartupProperties startup,
        @DefaultValue @NestedConfigurationProperty RateLimitProperties rateLimit,
        @DefaultValue @NestedConfigurationProperty WakeupProperties wakeup,
        @DefaultValue @NestedConfigurationProperty WebProperties web,
        @DefaultValue @NestedConfigurationProperty OperationsProperties operations,
        @DefaultValue @NestedConfigurationProperty DashboardProperties dashboard,
        @DefaultValue @NestedConfigurationProperty OAuth2Properties oauth2,
        @DefaultValue @NestedConfigurationProperty WorkflowProperties workflow,
        @DefaultValue @NestedConfigurationProperty AuditProperties audit,
        @DefaultValue @NestedConfigurationProperty HealthProperties health) {

    private static final int MOST_CONTROL_CONNECTIONS = 20;

    /** The size of an ordinary cluster, for the warning about pending logins. */
    private static final int ORDINARY_NODES = 10;

    public ClusterProperties {
        notBlank("name", name);
        atLeast(1, "control-connections", controlConnections);
        atMost(MOST_CONTROL_CONNECTIONS, "control-connections", controlConnections);
        shorter("sweep.interval", sweep.interval(), "job.lease-duration", job.leaseDuration());
        require(
                node.mode() != NodeMode.LEADER || node.roles().contains(NodeRole.SCHEDULER),
                "node.mode",
                "leader",
                "needs the role scheduler, which is missing in %s".formatted(named("node.roles", node.roles())));
    }

    /** Returns warnings about settings that are valid but unwise or without effect. */
    public List<String> warnings() {
        var warnings = new ArrayList<String>();
        if (job.leaseDuration().compareTo(job.heartbeatInterval().multipliedBy(3)) < 0) {
            warnings.add(
                    "%s is less than three times %s: a running job may lose its claim after a single late heartbeat"
                            .formatted(
                                    named("job.lease-duration", job.leaseDuration()),
                                    named("job.heartbeat-interval", job.heartbeatInterval())));
        }
        if (oauth2.enabled()
                && oauth2.maxPerMinute() > 0
                && oauth2.pendingOfOneAddress() * ORDINARY_NODES > oauth2.maxPending()) {
            warnings.add(
                    "%s lets one client address keep %d logins pending on each node (%s): on %d nodes it can reach %s and block the login of all users"
                            .formatted(
                                    named("oauth2.max-per-minute", oauth2.maxPerMinute()),
                                    oauth2.pendingOfOneAddress(),
                                    named("oauth2.ttl", oauth2.ttl()),
                                    ORDINARY_NODES,
                                    named("oauth2.max-pending", oauth2.maxPending())));
        }
        if (node.mode() != NodeMode.LEADER && node.onLostLeadership() != LeadershipLossAction.NOT_READY) {
            warnings.add("%s has no effect: it applies to %s only, not to %s"
                    .formatted(
                            named("node.on-lost-leadership", node.onLostLeadership()),
                            named("node.mode", NodeMode.LEADER),
                            named("node.mode", node.mode())));
        }
        return warnings;
    }

    /** How nodes find each other. */
    public enum Discovery {
        /** Through the table forge_nodes. */
        POSTGRES
    }
}

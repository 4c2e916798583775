// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * The settings of a node.
 *
 * @param drainTimeout how long running work may take to end when the node leaves
 */
public record NodeSettings(
        Presence presence, Heartbeat heartbeat, Detection detection, Election election, Duration drainTimeout) {

    /**
     * How a node presents itself to the other nodes, beyond its identity.
     *
     * @param info free text by key, for operators
     * @param load returns the load that each heartbeat reports
     */
    public record Presence(
            String hostname,
            NodeMode mode,
            Set<NodeRole> roles,
            List<String> capabilities,
            String version,
            Map<String, String> info,
            Supplier<Load> load) {

        /** Returns the roles that the node has in the cluster. A node of mode observer has no role but gateway. */
        public Set<NodeRole> effectiveRoles() {
            if (mode != NodeMode.OBSERVER) {
                return roles;
            }
            return roles.contains(NodeRole.GATEWAY) ? Set.of(NodeRole.GATEWAY) : Set.of();
        }

        /** Returns whether the node may be elected to the roles of the cluster and the application. */
        public boolean isCandidate() {
            return roles.contains(NodeRole.SCHEDULER) && (mode == NodeMode.AUTO || mode == NodeMode.LEADER);
        }

        /** Returns whether the node may be elected to any role; daemons choose their nodes by other rules. */
        public boolean mayCompete() {
            return mode != NodeMode.OBSERVER;
        }

        /** @throws MutationRefusedException if the node may not change the cluster through the API */
        void requireMayMutate() {
            if (mode == NodeMode.OBSERVER) {
                throw new MutationRefusedException(
                        "This node may not change the cluster: forge.cluster.node.mode (observer). Call another node, or set another"
                                + " mode.");
            }
            if (!roles.contains(NodeRole.FUNCTION)) {
                throw new MutationRefusedException(
                        "This node may not change the cluster: forge.cluster.node.roles (%s) lacks function. Add it, or call a node"
                                        .formatted(roles.stream()
                                                .map(EnumText::hyphenated)
                                                .sorted()
                                                .collect(Collectors.joining(",")))
                                + " that has it.");
            }
        }
    }

    /** How often a node sends heartbeats, and how long its silence may last. */
    public record Heartbeat(Duration interval, boolean adaptive, Duration maxInterval, Duration stale, Duration dead) {}

    /** How a node watches the others. */
    public record Detection(Duration interval, boolean livenessLock) {}

    /**
     * How a node stands for election.
     *
     * @param basis LOCK needs a session; LEASE works through a transaction pooler, without one
     */
    public record Election(
            LeadershipBasis basis,
            Duration checkInterval,
            Duration lease,
            Duration renewInterval,
            Duration localDeadline) {}
}

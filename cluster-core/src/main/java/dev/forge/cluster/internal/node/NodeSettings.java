package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.LeaderStore.Ground;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/**
 * How a node presents itself and how it takes part.
 *
 * @param drainTimeout how long work may take to finish when the node leaves
 */
public record NodeSettings(
        Presence presence, Heartbeat heartbeat, Detection detection, Election election, Duration drainTimeout) {

    /**
     * Who it is, beyond its identity.
     *
     * @param info free text by key, for operators
     * @param load how busy it is, asked at each heartbeat
     */
    public record Presence(
            String hostname,
            NodeMode mode,
            Set<NodeRole> roles,
            List<String> capabilities,
            String version,
            Map<String, String> info,
            Supplier<Load> load) {

        /** What it does for the cluster: an observer serves requests, and has no other role whatever it was given. */
        public Set<NodeRole> effectiveRoles() {
            if (mode != NodeMode.OBSERVER) {
                return roles;
            }
            return roles.contains(NodeRole.GATEWAY) ? Set.of(NodeRole.GATEWAY) : Set.of();
        }

        /** Whether it may be elected. */
        public boolean isCandidate() {
            return roles.contains(NodeRole.SCHEDULER) && (mode == NodeMode.AUTO || mode == NodeMode.LEADER);
        }

        /** Whether it may be elected to something: daemons choose their nodes themselves. */
        public boolean mayCompete() {
            return mode != NodeMode.OBSERVER;
        }

        /** Whether it may change the cluster through the API. */
        public boolean mayMutate() {
            return roles.contains(NodeRole.FUNCTION) && mode != NodeMode.OBSERVER;
        }
    }

    /** How often it shows that it lives, and how long its silence may last. */
    public record Heartbeat(Duration interval, boolean adaptive, Duration maxInterval, Duration stale, Duration dead) {}

    /** How it watches the others. */
    public record Detection(Duration interval, boolean livenessLock) {}

    /**
     * How it stands for election.
     *
     * @param ground LOCK needs a session of its own; LEASE works through a transaction pooler, and has none
     */
    public record Election(
            Ground ground, Duration checkInterval, Duration lease, Duration renewInterval, Duration localDeadline) {}
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.NodeSettings.Detection;
import dev.forge.cluster.internal.node.NodeSettings.Election;
import dev.forge.cluster.internal.node.NodeSettings.Heartbeat;
import dev.forge.cluster.internal.node.NodeSettings.Presence;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Creates nodes and settings as the auto-configuration would. */
public final class TestNodes {

    private TestNodes() {}

    static Node node(Node.Resources resources, NodeSettings settings, ThreadPoolTaskScheduler scheduler) {
        return new Node(settings, resources, Node.Drive.by(scheduler), event -> {});
    }

    /** Returns settings of a node with every role and the default timing. */
    public static NodeSettings candidate() {
        return new NodeSettings(
                new Presence(
                        "host",
                        NodeMode.AUTO,
                        Set.of(NodeRole.values()),
                        List.of("general"),
                        "1.0",
                        Map.of("zone", "a"),
                        () -> new Load(3, 0, 0.5, 0.25)),
                heartbeat(Duration.ofSeconds(5), Duration.ofSeconds(10), Duration.ofSeconds(15)),
                new Detection(Duration.ofMillis(250), true),
                new Election(
                        LeadershipBasis.LOCK,
                        Duration.ofMillis(250),
                        Duration.ofSeconds(5),
                        Duration.ofSeconds(1),
                        Duration.ofSeconds(3)),
                Duration.ofSeconds(30));
    }

    /** Returns settings of a worker. */
    static NodeSettings worker(Duration interval) {
        return withHeartbeat(
                withRoles(candidate(), NodeRole.WORKER),
                heartbeat(interval, Duration.ofSeconds(10), Duration.ofSeconds(15)));
    }

    /** Returns settings with short deadlines, so that a node waits briefly for another one with its key. */
    static NodeSettings impatient() {
        return withHeartbeat(
                worker(Duration.ofMillis(10)),
                heartbeat(Duration.ofMillis(10), Duration.ofMillis(20), Duration.ofMillis(30)));
    }

    public static Heartbeat heartbeat(Duration interval, Duration stale, Duration dead) {
        return new Heartbeat(interval, false, Duration.ofMinutes(1), stale, dead);
    }

    static Heartbeat adaptiveHeartbeat(Duration interval, Duration maxInterval, Duration stale, Duration dead) {
        return new Heartbeat(interval, true, maxInterval, stale, dead);
    }

    static Heartbeat everyTwentyMillis() {
        return heartbeat(Duration.ofMillis(20), Duration.ofSeconds(1), Duration.ofSeconds(2));
    }

    public static NodeSettings withHeartbeat(NodeSettings settings, Heartbeat heartbeat) {
        return new NodeSettings(
                settings.presence(), heartbeat, settings.detection(), settings.election(), settings.drainTimeout());
    }

    public static NodeSettings withoutLivenessLock(NodeSettings settings) {
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                new Detection(settings.detection().interval(), false),
                settings.election(),
                settings.drainTimeout());
    }

    public static NodeSettings withDrainTimeout(NodeSettings settings, Duration timeout) {
        return new NodeSettings(
                settings.presence(), settings.heartbeat(), settings.detection(), settings.election(), timeout);
    }

    public static NodeSettings withMode(NodeSettings settings, NodeMode mode) {
        Presence usual = settings.presence();
        return withPresence(settings, mode, usual.roles(), usual.capabilities(), usual.load());
    }

    public static NodeSettings withRoles(NodeSettings settings, NodeRole... roles) {
        return withRoles(settings, Set.of(roles));
    }

    public static NodeSettings withRoles(NodeSettings settings, Set<NodeRole> roles) {
        Presence usual = settings.presence();
        return withPresence(settings, usual.mode(), roles, usual.capabilities(), usual.load());
    }

    public static NodeSettings withCapabilities(NodeSettings settings, List<String> capabilities) {
        Presence usual = settings.presence();
        return withPresence(settings, usual.mode(), usual.roles(), capabilities, usual.load());
    }

    public static NodeSettings withLoad(NodeSettings settings, Supplier<Load> load) {
        Presence usual = settings.presence();
        return withPresence(settings, usual.mode(), usual.roles(), usual.capabilities(), load);
    }

    private static NodeSettings withPresence(
            NodeSettings settings, NodeMode mode, Set<NodeRole> roles, List<String> capabilities, Supplier<Load> load) {
        Presence usual = settings.presence();
        return new NodeSettings(
                new Presence(usual.hostname(), mode, roles, capabilities, usual.version(), usual.info(), load),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    public static NodeSettings byLease(NodeSettings settings) {
        Election usual = settings.election();
        return withElection(
                settings,
                new Election(
                        LeadershipBasis.LEASE,
                        usual.checkInterval(),
                        usual.lease(),
                        usual.renewInterval(),
                        usual.localDeadline()));
    }

    public static NodeSettings withLease(NodeSettings settings, Duration lease) {
        Election usual = settings.election();
        return withElection(
                settings,
                new Election(
                        usual.basis(), usual.checkInterval(), lease, usual.renewInterval(), usual.localDeadline()));
    }

    public static NodeSettings withLease(
            NodeSettings settings, Duration lease, Duration renewInterval, Duration localDeadline) {
        Election usual = settings.election();
        return withElection(
                settings, new Election(usual.basis(), usual.checkInterval(), lease, renewInterval, localDeadline));
    }

    /** Returns settings of a node that keeps its leaderships even if the machine stands still for some seconds. */
    public static NodeSettings steady(NodeSettings settings) {
        return withLease(settings, Duration.ofMinutes(1), Duration.ofSeconds(1), Duration.ofSeconds(45));
    }

    public static NodeSettings withElectionEvery(NodeSettings settings, Duration checkInterval) {
        Election usual = settings.election();
        return withElection(
                settings,
                new Election(
                        usual.basis(), checkInterval, usual.lease(), usual.renewInterval(), usual.localDeadline()));
    }

    private static NodeSettings withElection(NodeSettings settings, Election election) {
        return new NodeSettings(
                settings.presence(), settings.heartbeat(), settings.detection(), election, settings.drainTimeout());
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.springframework.scheduling.TaskScheduler;

/** Creates nodes and settings as the auto-configuration would. */
public final class TestNodes {

    private TestNodes() {}

    static Node node(Node.Resources resources, NodeSettings settings, TaskScheduler scheduler) {
        return new Node(settings, resources, scheduler, event -> {});
    }

    /** Returns settings with short deadlines, so that a node waits briefly for another one with its key. */
    static NodeSettings impatient() {
        NodeSettings usual = settings(Duration.ofMillis(10));
        return new NodeSettings(
                usual.presence(),
                new NodeSettings.Heartbeat(
                        Duration.ofMillis(10),
                        false,
                        Duration.ofMinutes(1),
                        Duration.ofMillis(20),
                        Duration.ofMillis(30)),
                usual.detection(),
                usual.election(),
                usual.drainTimeout());
    }

    /** Returns settings of a node with every role and the default timing. */
    public static NodeSettings candidate() {
        return settings(Duration.ofSeconds(5), NodeMode.AUTO, Set.of(NodeRole.values()));
    }

    public static NodeSettings with(NodeSettings settings, NodeSettings.Heartbeat heartbeat) {
        return new NodeSettings(
                settings.presence(), heartbeat, settings.detection(), settings.election(), settings.drainTimeout());
    }

    public static NodeSettings with(NodeSettings settings, NodeSettings.Detection detection) {
        return new NodeSettings(
                settings.presence(), settings.heartbeat(), detection, settings.election(), settings.drainTimeout());
    }

    public static NodeSettings with(NodeSettings settings, NodeMode mode, Set<NodeRole> roles) {
        return new NodeSettings(
                settings(Duration.ofSeconds(5), mode, roles).presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    static NodeSettings.Heartbeat everyTwentyMillis() {
        return new NodeSettings.Heartbeat(
                Duration.ofMillis(20), false, Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(2));
    }

    public static NodeSettings byLease(NodeSettings settings) {
        NodeSettings.Election usual = settings.election();
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                settings.detection(),
                new NodeSettings.Election(
                        LeadershipBasis.LEASE,
                        usual.checkInterval(),
                        usual.lease(),
                        usual.renewInterval(),
                        usual.localDeadline()),
                settings.drainTimeout());
    }

    public static NodeSettings settings(Duration heartbeat) {
        return settings(heartbeat, NodeMode.AUTO, Set.of(NodeRole.WORKER));
    }

    public static NodeSettings settings(Duration heartbeat, NodeMode mode, Set<NodeRole> roles) {
        return new NodeSettings(
                new NodeSettings.Presence(
                        "host",
                        mode,
                        roles,
                        List.of("general"),
                        "1.0",
                        Map.of("zone", "a"),
                        () -> new Load(3, 0, 0.5, 0.25)),
                new NodeSettings.Heartbeat(
                        heartbeat, false, Duration.ofMinutes(1), Duration.ofSeconds(10), Duration.ofSeconds(15)),
                new NodeSettings.Detection(Duration.ofMillis(250), true),
                new NodeSettings.Election(
                        LeadershipBasis.LOCK,
                        Duration.ofMillis(250),
                        Duration.ofSeconds(5),
                        Duration.ofSeconds(1),
                        Duration.ofSeconds(3)),
                Duration.ofSeconds(30));
    }

    public static NodeSettings withDrain(NodeSettings settings, Duration timeout) {
        return new NodeSettings(
                settings.presence(), settings.heartbeat(), settings.detection(), settings.election(), timeout);
    }
}

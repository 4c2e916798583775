package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.actuate.NodesDescriptor.NodeDescriptor;
import dev.forge.cluster.autoconfigure.actuate.NodesDescriptor.NodeStateDescriptor;
import dev.forge.cluster.internal.node.NodeStore;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** {@code /actuator/forgecluster/nodes}: lists nodes and drains them. */
final class NodesResource {

    private final NodeStore nodes;

    NodesResource(NodeStore nodes) {
        this.nodes = nodes;
    }

    /** Returns the number of nodes by status. */
    Map<String, Long> counts() {
        return nodes.all().stream()
                .collect(Collectors.groupingBy(NodeStore.Row::status, TreeMap::new, Collectors.counting()));
    }

    NodesDescriptor list() {
        return new NodesDescriptor(
                nodes.all().stream().map(NodesResource::descriptor).toList());
    }

    private static NodeDescriptor descriptor(NodeStore.Row node) {
        return new NodeDescriptor(
                node.id(),
                node.key(),
                node.name(),
                node.hostname(),
                node.mode(),
                node.roles(),
                node.capabilities(),
                node.status(),
                node.version(),
                node.startedAt(),
                node.lastHeartbeat(),
                node.connections(),
                node.jobs(),
                node.cpu(),
                node.memory());
    }

    /** Drains a node; returns null if there is no such node. */
    @Nullable
    NodeStateDescriptor changeState(String id, String state) {
        if (!state.equals("draining")) {
            throw EndpointRequests.invalid("Unsupported state '%s' for a node: use 'draining'".formatted(state));
        }
        return nodes.drain(EndpointRequests.id("node", id)) ? new NodeStateDescriptor(id, state) : null;
    }
}

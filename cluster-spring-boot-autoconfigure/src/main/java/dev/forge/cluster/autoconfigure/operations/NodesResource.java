// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.operations.NodesDescriptor.NodeDescriptor;
import dev.forge.cluster.autoconfigure.operations.NodesDescriptor.NodeStateDescriptor;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeStore;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;

/** The resource {@code nodes}: lists nodes and drains them. */
final class NodesResource implements Resource {

    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList().withChange();

    private final Node own;
    private final NodeReports reports;
    private final NodeStore nodes;

    NodesResource(Node own, NodeReports reports, NodeStore nodes) {
        this.own = own;
        this.reports = reports;
        this.nodes = nodes;
    }

    @Override
    public String name() {
        return "nodes";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    /** Returns the number of nodes by status. */
    Map<String, Long> counts() {
        return reports.all().stream()
                .collect(Collectors.groupingBy(NodeReports.Row::status, TreeMap::new, Collectors.counting()));
    }

    @Override
    public OperationResult read(OperationRequest request) {
        return request.result(new NodesDescriptor(
                reports.all().stream().map(NodesResource::descriptor).toList()));
    }

    private static NodeDescriptor descriptor(NodeReports.Row node) {
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
                node.slots(),
                node.cpu(),
                node.memory());
    }

    /** Drains a node. */
    @Override
    public OperationResult change(OperationRequest request, String state) {
        String id = request.entry();
        if (!state.equals("draining")) {
            throw new InvalidOperationException("Unsupported state '%s' for a node: use 'draining'".formatted(state));
        }
        UUID node = OperationRequest.id("node", id);
        try {
            // Leaving changes nothing for others: every node may drain itself.
            if (!node.equals(own.id())) {
                own.requireMayMutate();
            }
        } catch (MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
        return request.result(
                nodes.requestDrain(node, own.resources().audit()) ? new NodeStateDescriptor(id, state) : null);
    }
}

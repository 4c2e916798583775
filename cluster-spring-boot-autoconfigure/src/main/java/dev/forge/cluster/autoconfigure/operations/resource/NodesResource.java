// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeStore;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;

/** The resource {@code nodes}: lists nodes and drains them. */
final class NodesResource extends Resource {

    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList().withChange();

    private final Node own;
    private final NodeReports reports;
    private final NodeStore nodes;
    private final ValueSanitizer values;

    NodesResource(Node own, NodeReports reports, NodeStore nodes, ValueSanitizer values) {
        super("nodes", PARAMETERS);
        this.own = own;
        this.reports = reports;
        this.nodes = nodes;
        this.values = values;
    }

    /** Returns the number of nodes by status. */
    Map<String, Long> counts() {
        return reports.all().stream()
                .collect(Collectors.groupingBy(NodeReports.Row::status, TreeMap::new, Collectors.counting()));
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        return request.result(
                new JsonObject().with("nodes", values.shownTo(request.caller()).objects(reports.all())));
    }

    /** Drains a node. */
    @Override
    protected OperationResult change(OperationRequest request, String state) {
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
                nodes.requestDrain(node, own.resources().audit())
                        ? new JsonObject().with("id", id).with("state", state)
                        : null);
    }
}

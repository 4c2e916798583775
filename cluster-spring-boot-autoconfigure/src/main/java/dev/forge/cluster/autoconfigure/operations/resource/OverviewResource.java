// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.ReadPermits;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.Map;
import java.util.function.Supplier;

/** The resource {@code overview}: this node, the leaders, and how many nodes, unfinished jobs and daemons there are in each status. */
final class OverviewResource extends Resource {

    /** Monitoring must not wait for people who look at large values. */
    private final ReadPermits permits = new ReadPermits(2);

    private final String clusterName;
    private final Node node;
    private final LeaderStore leaders;
    private final ValueSanitizer values;
    private final Map<String, Supplier<Map<String, Long>>> counts;

    /** @param counts the numbers of things by status, each with the name of its member */
    OverviewResource(
            String clusterName,
            Node node,
            LeaderStore leaders,
            ValueSanitizer values,
            Map<String, Supplier<Map<String, Long>>> counts) {
        super("overview", ResourceParameters.ofList());
        this.clusterName = clusterName;
        this.node = node;
        this.leaders = leaders;
        this.values = values;
        this.counts = counts;
    }

    @Override
    protected boolean boundsReaders() {
        return true;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        return permits.read(() -> request.result(overview(request)));
    }

    private JsonObject overview(OperationRequest request) {
        var overview = new JsonObject()
                .with("cluster", clusterName)
                .with(
                        "node",
                        new JsonObject()
                                .with("id", String.valueOf(node.id()))
                                .with("name", node.identity().name())
                                .with("state", EnumText.hyphenated(node.state()))
                                .with("leads", node.elector().applicationRolesHeld()))
                .with("leaders", values.shownTo(request.caller()).objects(leaders.leaders()));
        counts.forEach((name, count) -> overview.with(name, count.get()));
        return overview;
    }
}

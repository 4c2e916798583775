// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.node.NodeInfo;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.node.NodeStatus;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;

/** {@link ClusterNodes} on {@code forge_nodes}. */
public final class DefaultClusterNodes implements ClusterNodes {

    private final Member member;
    private final NodeReports reports;

    public DefaultClusterNodes(Member member, NodeReports reports) {
        this.member = member;
        this.reports = reports;
    }

    @Override
    public List<NodeInfo> list() {
        return reports.live().stream().map(DefaultClusterNodes::info).toList();
    }

    @Override
    public Optional<NodeInfo> find(UUID id) {
        Arguments.required("ClusterNodes.find", "id", id);
        return reports.find(id).map(DefaultClusterNodes::info);
    }

    @Override
    public Optional<NodeInfo> self() {
        UUID id = member.id();
        return id == null ? Optional.empty() : find(id);
    }

    private static NodeInfo info(NodeReports.Row row) {
        return new NodeInfo(
                row.id(),
                row.key(),
                row.name(),
                row.hostname(),
                EnumText.parse(NodeStatus.class, row.status()),
                roles(row.roles()),
                Set.copyOf(row.capabilities()),
                row.version(),
                row.startedAt().toInstant(),
                row.heartbeatAge(),
                row.jobs());
    }

    /** A newer node may have roles that this version does not know. */
    private static Set<NodeRole> roles(List<String> texts) {
        Set<NodeRole> roles = EnumSet.noneOf(NodeRole.class);
        for (NodeRole role : NodeRole.values()) {
            if (texts.contains(EnumText.hyphenated(role))) {
                roles.add(role);
            }
        }
        return new LinkedHashSet<>(roles);
    }
}

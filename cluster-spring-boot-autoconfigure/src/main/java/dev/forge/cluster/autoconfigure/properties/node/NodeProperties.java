// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.leader.LeadershipLossAction;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Identity and tasks of this node.
 *
 * @param id Stable key of this node, unique among live nodes. Default: generated.
 * @param name Name of this node in logs and the endpoint. Default: the host name.
 * @param info Additional information for operators, by key.
 * @param mode Mode of the node, in addition to its roles: auto, leader, worker or observer.
 * @param roles Tasks of the node in the cluster: gateway, function, worker, scheduler.
 * @param capabilities Capabilities that the node offers to jobs that require one.
 * @param onLostLeadership Reaction of a node of mode leader that has not led for longer than leader.lease-duration: not-ready until it
 *     leads again, stand-by, or exit. Has no effect in other modes.
 */
public record NodeProperties(
        @Nullable String id,
        @Nullable String name,
        @DefaultValue Map<String, String> info,
        @DefaultValue("auto") NodeMode mode,

        @DefaultValue({"gateway", "function", "worker", "scheduler"})
        Set<NodeRole> roles,

        @DefaultValue("general") List<String> capabilities,
        @DefaultValue("not-ready") LeadershipLossAction onLostLeadership) {
    public NodeProperties {
        notBlank("node.id", id);
        notBlank("node.name", name);
        info = Map.copyOf(info);
        roles = Collections.unmodifiableSet(new TreeSet<>(roles));
        capabilities = List.copyOf(capabilities);
        require(
                !roles.isEmpty(),
                "node.roles",
                "",
                "must contain a role; for a node that only watches, set forge.cluster.node.mode=observer");
        require(
                capabilities.stream().noneMatch(capability -> capability.isBlank() || !Names.isPrintable(capability)),
                "node.capabilities",
                capabilities,
                "must not contain blank entries or control characters");
        require(
                !capabilities.contains(Names.OTHERS),
                "node.capabilities",
                capabilities,
                "must not contain (other), under which reports sum up further capabilities");
        require(
                capabilities.stream().noneMatch(capability -> capability.startsWith("@")),
                "node.capabilities",
                capabilities,
                "must not begin with @, which is reserved for the cluster");
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import dev.forge.cluster.ClusterEvent;

/**
 * Spring event: this node became the leader of a role.
 *
 * @param role the name of the role
 * @param term the number of this term, larger than all earlier ones
 */
public record LeadershipAcquired(String role, long term) implements ClusterEvent {}

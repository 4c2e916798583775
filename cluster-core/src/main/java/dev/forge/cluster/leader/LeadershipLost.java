// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import dev.forge.cluster.ClusterEvent;

/**
 * Spring event: this node no longer leads a role, or can no longer be sure that it does.
 *
 * @param role the name of the role
 * @param term the number of the term that ended
 */
public record LeadershipLost(String role, long term) implements ClusterEvent {}

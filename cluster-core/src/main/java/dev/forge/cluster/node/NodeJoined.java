// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node joined the cluster.
 *
 * @param id the id of its membership
 * @param name the name of the node
 */
public record NodeJoined(UUID id, String name) implements ClusterEvent {}

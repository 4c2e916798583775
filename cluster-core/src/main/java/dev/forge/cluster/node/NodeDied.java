// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node was declared dead, and its jobs, locks and leader roles were released.
 *
 * @param id the id of its membership
 * @param name the name of the node
 */
public record NodeDied(UUID id, String name) implements ClusterEvent {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node left the cluster after a graceful shutdown.
 *
 * @param id the id of its membership
 * @param name the name of the node
 */
public record NodeLeft(UUID id, String name) implements ClusterEvent {}

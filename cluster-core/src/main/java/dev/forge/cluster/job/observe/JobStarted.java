// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: an attempt of a job starts on this node. Published only if {@code forge.cluster.job.events} is {@code all}.
 *
 * @param attempt the number of the attempt, from 1
 */
public record JobStarted(UUID id, String name, int attempt) implements ClusterEvent {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.job.JobAttemptOutcome;
import java.util.UUID;

/**
 * Spring event: an attempt of a job ended on this node. Published only if {@code forge.cluster.job.events} is {@code all}.
 *
 * @param attempt the number of the attempt, from 1
 */
public record JobEnded(UUID id, String name, int attempt, JobAttemptOutcome outcome) implements ClusterEvent {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.job.JobStatus;
import java.util.UUID;

/**
 * Spring event: a job has failed permanently or was abandoned. Published once, on the node that recorded it, unless that node
 * crashes at that moment or {@code forge.cluster.job.events} is {@code none}.
 *
 * @param status {@link JobStatus#FAILED} or {@link JobStatus#ABANDONED}
 * @param error the last error
 */
public record JobFailed(UUID id, String name, JobStatus status, String error) implements ClusterEvent {}

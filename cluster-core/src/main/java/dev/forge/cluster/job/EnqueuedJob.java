// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.UUID;

/**
 * The result of enqueueing a job.
 *
 * @param id the id of the job
 * @param created whether the call created the job; false if an active job has the same unique key, in which case {@code id} is
 *     the id of that job
 */
public record EnqueuedJob(UUID id, boolean created) {}

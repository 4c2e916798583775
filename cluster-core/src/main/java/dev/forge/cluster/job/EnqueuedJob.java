// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.UUID;

/**
 * The result of enqueueing a job.
 *
 * @param id the id of the job
 * @param created whether the call created the job; false if an active job has the same unique key, or if the key has a {@linkplain
 *     JobOptions#withUniqueFor window}. Then {@code id} is the id of that job; the job of a window may have ended, and its row may
 *     have been deleted
 */
public record EnqueuedJob(UUID id, boolean created) {}

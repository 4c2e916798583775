// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import java.util.UUID;

/**
 * Identifies one claim of one job.
 *
 * @param id the job
 * @param epoch the number of the claim; each claim of a job raises it
 */
public record ClaimKey(UUID id, long epoch) {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

/**
 * A bounded count of jobs.
 *
 * @param jobs the number of jobs that were found
 * @param exact whether these are all; false if the search ended at its bound, in which case there are at least {@code jobs}
 */
public record JobCount(long jobs, boolean exact) {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * The rows of {@code forge_jobs} and of what belongs to a job: each class has the statements of a few transitions (insert, claim, start,
 * finish, give back, cancel, restart, recover, purge). No other package writes {@code forge_jobs}. A statement that a stale owner
 * could send names node and epoch of its claim, and its update count decides.
 */
@NullMarked
package dev.forge.cluster.internal.job.row;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Upkeep of all jobs by the leaders. The leader of the role scheduler recovers jobs of dead nodes and expired leases, and moves times
 * after the clock was set back. The leader of the role log_compactor deletes ended jobs whose retention has passed, and vacuums.
 */
@NullMarked
package dev.forge.cluster.internal.job.upkeep;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * What the leader does for all jobs now and then: it recovers jobs of dead nodes and expired leases, moves times after a step back of
 * the clock, deletes ended jobs whose retention has passed, and vacuums.
 */
@NullMarked
package dev.forge.cluster.internal.job.upkeep;

import org.jspecify.annotations.NullMarked;

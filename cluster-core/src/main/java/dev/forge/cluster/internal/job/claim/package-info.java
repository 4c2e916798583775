// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Decides which due jobs this node claims next: the claiming thread, its lanes, the search for queues with due jobs, groups and limits.
 */
@NullMarked
package dev.forge.cluster.internal.job.claim;

import org.jspecify.annotations.NullMarked;

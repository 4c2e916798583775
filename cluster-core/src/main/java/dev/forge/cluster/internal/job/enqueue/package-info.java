// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Turns a payload and options into a new row: names, checks, keys, windows, batches, and the announcement after the commit.
 */
@NullMarked
package dev.forge.cluster.internal.job.enqueue;

import org.jspecify.annotations.NullMarked;

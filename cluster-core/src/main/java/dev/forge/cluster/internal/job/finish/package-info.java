// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Writes the ends of claims: many with one statement; a row that cannot be written or is locked does not block the others; a lost
 * response is told from a lost claim.
 */
@NullMarked
package dev.forge.cluster.internal.job.finish;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Writes the ends of claims, many with one statement. A row that is locked or cannot be written does not block the others. A lost
 * response is distinguished from a lost claim.
 */
@NullMarked
package dev.forge.cluster.internal.job.finish;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Reads and orders of operators: lists, searches, counts, bulk changes, exports, explanations, the demand.
 */
@NullMarked
package dev.forge.cluster.internal.job.operate;

import org.jspecify.annotations.NullMarked;

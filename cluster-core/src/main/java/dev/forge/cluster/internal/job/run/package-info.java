// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * A claimed job on a thread of this node: its attempt, the call of its handler, transactions, leases, checkpoints, logs.
 */
@NullMarked
package dev.forge.cluster.internal.job.run;

import org.jspecify.annotations.NullMarked;

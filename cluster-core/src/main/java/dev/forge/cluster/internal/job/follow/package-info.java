// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Follows up the ends of jobs: releases the jobs that wait for them, and ends their batches.
 */
@NullMarked
package dev.forge.cluster.internal.job.follow;

import org.jspecify.annotations.NullMarked;

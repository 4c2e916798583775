// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * What the end of a job sets off: jobs that wait for it, and its batch.
 */
@NullMarked
package dev.forge.cluster.internal.job.follow;

import org.jspecify.annotations.NullMarked;

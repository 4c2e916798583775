// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import java.time.Duration;

/**
 * Computes how long a job waits after a failed attempt. A bean of this type replaces {@code forge.cluster.job.backoff.*}.
 */
@FunctionalInterface
public interface BackoffStrategy {

    /**
     * Returns the delay before the next attempt, without jitter, which the engine adds.
     *
     * @param failedAttempts the number of attempts that have failed, at least 1
     * @param failure the exception that ended the last attempt
     */
    Duration delay(int failedAttempts, Throwable failure);
}

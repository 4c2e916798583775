// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Duration;
import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * An attempt of a job that did not succeed.
 *
 * @param attempt the number of the attempt, from 1. A lost node does not use up the attempt, so the next one can have the same number
 * @param epoch the claim under which it ran
 * @param nodeId the node that ran it; null if unknown
 * @param startedAt when it began, by the database's clock
 * @param duration how long it ran; null if unknown
 * @param result why it did not succeed
 * @param error the first 2,000 characters of the error
 */
public record JobAttempt(
        int attempt,
        long epoch,
        @Nullable UUID nodeId,
        Instant startedAt,
        @Nullable Duration duration,
        Result result,
        String error) {

    /** Why an attempt did not succeed. Whether another one followed is the {@linkplain JobAttemptOutcome.Kind outcome}. */
    public enum Result {
        /** The handler threw, or returned {@link Outcome#retryAfter} or {@link Outcome#fail}. */
        FAILED,
        /** The handler exceeded its timeout. */
        TIMED_OUT,
        /** The node died or left, or it did not renew the lease in time. */
        NODE_LOST
    }
}

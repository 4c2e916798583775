package dev.forge.cluster.job;

import java.time.Duration;
import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * An attempt of a job that did not succeed.
 *
 * @param attempt which attempt it was, from 1; a lost node does not spend the attempt, so the next one may have the same number
 * @param epoch the claim under which it ran
 * @param nodeId the node that ran it; null if unknown
 * @param startedAt when it began, by the database's clock
 * @param duration how long it ran; null if unknown
 * @param error the first 2,000 characters of what went wrong
 */
public record JobAttempt(
        int attempt,
        long epoch,
        @Nullable UUID nodeId,
        Instant startedAt,
        @Nullable Duration duration,
        Result result,
        String error) {

    /** How an attempt ended. */
    public enum Result {
        /** The handler threw, or returned that it failed. */
        FAILED,
        /** The handler exceeded its timeout. */
        TIMED_OUT,
        /** The node died or left, or it did not renew the lease in time. */
        NODE_LOST
    }
}

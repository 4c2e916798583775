// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import org.jspecify.annotations.Nullable;

/**
 * How an attempt ended.
 *
 * @param failure the exception of the handler; null if it returned or was only interrupted
 */
public record JobAttemptOutcome(Kind kind, @Nullable Throwable failure) {

    /** The kinds of outcomes. The first four are those that a handler can decide by its {@link Outcome}. */
    public enum Kind {
        /** The job is completed. */
        COMPLETED,
        /** The job runs again later, no attempt is counted: {@link Outcome#snooze}, or a rate limit was exceeded. */
        SNOOZED,
        /** The attempt failed, and there will be another one. */
        RETRIED,
        /** The job has failed permanently. */
        FAILED,
        /**
         * The attempt does not count, and the job runs again: the node drains, the transaction could not begin or conflicted with
         * another one, the job's row was locked, or a call for several jobs failed.
         */
        RETURNED,
        /** The job was cancelled, or another node has it; the result was discarded. */
        LOST
    }
}

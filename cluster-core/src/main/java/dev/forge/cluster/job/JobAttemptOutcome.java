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

    /** The kinds of outcomes. */
    public enum Kind {
        /** The job is completed. */
        COMPLETED,
        /** The handler returned {@link Outcome#snooze}: the job runs again later and has not used an attempt. */
        SNOOZED,
        /** The attempt failed, and the job will be tried again. */
        RETRIED,
        /** The job has failed permanently. */
        FAILED,
        /**
         * The job runs again: the attempt was interrupted because the node drains, its transaction could not begin, or a call for
         * several jobs failed.
         */
        RETURNED,
        /** The job was no longer this node's, and the result was discarded. */
        LOST
    }
}

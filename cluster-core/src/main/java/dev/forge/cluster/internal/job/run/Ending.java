// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import org.jspecify.annotations.Nullable;

/**
 * How an attempt ended on this node.
 *
 * @param failure the exception that was thrown; null if the attempt succeeded or was only interrupted
 * @param error the error that is recorded with the end of the job
 * @param ranNanos how long the handler ran; 0 if that does not matter
 * @param finish what is to be written; null if it is written already, or never
 */
record Ending(
        Kind kind,
        @Nullable Throwable failure,
        @Nullable String error,
        long ranNanos,
        @Nullable Finish finish) {

    /** The claim was lost: nothing is written. */
    static Ending lost(@Nullable Throwable failure) {
        return new Ending(Kind.LOST, failure, null, 0, null);
    }

    /** The job is returned to the queue. */
    static Ending returned(Finish finish, @Nullable Throwable failure) {
        return new Ending(Kind.RETURNED, failure, finish.error(), 0, finish);
    }

    /** Returns the ending after the database has rejected the result. */
    Ending rejected(String rejection, Throwable cause) {
        return new Ending(Kind.FAILED, cause, rejection, ranNanos, finish);
    }

    /** Returns the ending with an error that the handler has recorded. */
    Ending withError(@Nullable String recorded) {
        return recorded == null ? this : new Ending(kind, failure, recorded, ranNanos, finish);
    }

    /** Returns the ending of a job whose row is left to the clean-up. */
    Ending leftToCleanUp() {
        return finish == null || !finish.isDeletion()
                ? this
                : new Ending(kind, failure, error, ranNanos, finish.leftToCleanUp());
    }

    /** Returns whether the job is due again, now or later. */
    boolean isReturning() {
        return switch (kind) {
            case SNOOZED, RETRIED, RETURNED -> true;
            case COMPLETED, FAILED, LOST -> false;
        };
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The outcome of one slot of a cron.
 *
 * @param slot the planned time
 * @param reason why the slot did not run as planned; null if it did
 * @param job the id of the job; null if the slot did not run
 * @param jobStatus the status of the job; null, like the following values, if the slot did not run or its job was purged
 * @param attempts the number of attempts of the job
 * @param error the error of its last failed attempt
 * @param startedAt when its last attempt started
 * @param finishedAt when the job ended
 * @param term the term of the leader that decided; null if the run was triggered through {@link Crons}
 * @param decidedAt when the outcome was decided
 */
public record CronRun(
        String cron,
        Instant slot,
        Outcome outcome,
        @Nullable String reason,
        @Nullable UUID job,
        @Nullable JobStatus jobStatus,
        @Nullable Integer attempts,
        @Nullable String error,
        @Nullable Instant startedAt,
        @Nullable Instant finishedAt,
        @Nullable Long term,
        Instant decidedAt) {

    /** The outcome of a slot. */
    public enum Outcome {
        /** The slot was fired as a job; see {@link CronRun#jobStatus}. */
        RAN,
        /** The slot was skipped because the cron was paused or its previous run had not ended. */
        SKIPPED,
        /** No node could fire the slot in time. */
        MISSED
    }
}

package dev.forge.cluster.cron;

import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * What became of one slot of a cron.
 *
 * @param slot the planned time
 * @param reason why it did not run, or ran beside the plan; null if it simply ran
 * @param job the run; null if there was none
 * @param jobStatus how far that is; null if there was none, like all that follows of it
 * @param attempts how often it was tried
 * @param error how its last attempt failed
 * @param startedAt when its last attempt began
 * @param finishedAt when it ended for good
 * @param term of the leader that decided; null if somebody did through {@link Crons}
 * @param decidedAt when that was
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

    /** What became of it. */
    public enum Outcome {
        /** A job was made of it; how far that is, its {@link CronRun#jobStatus} says. */
        RAN,
        /** It was left out on purpose: paused, or its predecessor still ran. */
        SKIPPED,
        /** Nobody could run it in time. */
        MISSED
    }
}

package dev.forge.cluster.cron;

import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A cron as it stands.
 *
 * @param declared whether it is declared in code; otherwise it was made at run time
 * @param handler the name of the job that runs
 * @param expression as {@link ClusterCron#value()} takes it; an interval as {@code @every PT30S}, {@code -} for never
 * @param next its next slot; null: never
 * @param known whether a live node may run its handler; where none may, its slots wait
 * @param problem why it does not fire, as the leader found; null if it does
 * @param lastRun the last slot that ran; null: none yet
 * @param latest what became of its last slot, run or not; null: none yet
 */
public record CronInfo(
        String name,
        boolean declared,
        String handler,
        String expression,
        String zone,
        CronTarget target,
        @Nullable String capability,
        Misfire misfire,
        int catchUpLimit,
        Overlap overlap,
        Duration jitter,
        boolean paused,
        @Nullable Instant next,
        boolean known,
        @Nullable String problem,
        @Nullable CronRun lastRun,
        @Nullable CronRun latest) {}

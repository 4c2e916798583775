package dev.forge.cluster;

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
 * @param known whether a live node has its handler; where none has, its slots wait
 * @param lastRun what became of its last slot; null: none yet
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
        @Nullable CronRun lastRun) {}

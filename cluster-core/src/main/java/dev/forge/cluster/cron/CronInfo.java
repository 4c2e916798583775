// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A cron as recorded in the database.
 *
 * @param declared whether the cron is declared in code; otherwise it was created at run time
 * @param handler the name of the handler that runs
 * @param expression the expression, see {@link ClusterCron#value()}; an interval as {@code @every PT30S}, {@code -} for never
 * @param group the group of its jobs, see {@link CronDefinition#withGroup}; null: as the handler declares
 * @param next the next slot; null: never
 * @param runnable whether a live node can run the handler; otherwise the slots wait
 * @param problem why the cron does not fire; null if it does
 * @param lastRun the last slot that ran; null: none
 * @param latest the outcome of the last slot, whether it ran or not; null: none
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
        @Nullable String group,
        boolean paused,
        @Nullable Instant next,
        boolean runnable,
        @Nullable String problem,
        @Nullable CronRun lastRun,
        @Nullable CronRun latest) {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.forge.cluster.autoconfigure.operations.HistoryDescriptor.TimesDescriptor;
import dev.forge.cluster.autoconfigure.operations.LimitsDescriptor.LimitDescriptor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The names of jobs with what their jobs did lately, as the resource {@code job-names} returns them.
 *
 * @param rangeSeconds the length of the time
 * @param names the names, in alphabetical order
 * @param cutOff whether there are more names
 */
public record JobNamesDescriptor(long rangeSeconds, List<JobNameDescriptor> names, boolean cutOff) {

    /**
     * The name of jobs.
     *
     * @param name the name
     * @param paused whether it is paused
     * @param executor the executor that runs the jobs; absent if no live node has a handler
     * @param due the jobs that are due and have not started
     * @param dueIsExact false if counting stopped: there are {@code due} jobs or more
     * @param oldestDueSeconds how long the oldest pending job has been due; 0 if none is due
     * @param running the jobs that run
     * @param slots the slots of all active workers that have the handler, which other names share
     * @param completed how many jobs completed
     * @param failed how many jobs failed for good, or were abandoned
     * @param retried how many attempts failed after which the job is tried again
     * @param recovered how many times a job was taken from a dead or silent node
     * @param completedPerMinute how many jobs completed in a minute, on average
     * @param failureRatio the share of jobs that failed for good, from 0 to 1
     * @param waiting how long attempts had been due when they started; absent if none started
     * @param duration how long attempts ran; absent if none ended
     * @param limits its limits, as in {@link LimitsDescriptor}; absent if there are none
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record JobNameDescriptor(
            String name,
            boolean paused,
            @Nullable String executor,
            long due,
            boolean dueIsExact,
            double oldestDueSeconds,
            long running,
            int slots,
            long completed,
            long failed,
            long retried,
            long recovered,
            double completedPerMinute,
            double failureRatio,
            @Nullable TimesDescriptor waiting,
            @Nullable TimesDescriptor duration,
            @Nullable LimitDescriptor limits) {}
}

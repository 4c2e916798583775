// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The demand for workers, as the resource {@code demand} returns it.
 *
 * @param drainTargetSeconds the time within which the needed slots would have run the due jobs
 * @param total the demand of all jobs
 * @param executors the demand of each executor
 * @param capabilities the demand of each capability that workers offer or jobs require
 * @param jobs the demand of each job name
 */
public record DemandDescriptor(
        double drainTargetSeconds,
        TotalDescriptor total,
        Map<String, TotalDescriptor> executors,
        Map<String, TotalDescriptor> capabilities,
        Map<String, JobNameDescriptor> jobs) {

    /**
     * The demand of several job names.
     *
     * @param due the jobs that are due and have not started
     * @param dueIsExact false if counting stopped: there are {@code due} jobs or more
     * @param oldestDueSeconds how long the oldest pending job has been due; 0 if none is due
     * @param startable how many of the due jobs may start now
     * @param running the jobs that run
     * @param slots the slots of all active workers
     * @param neededSlots the slots that running and startable jobs need
     * @param drainSeconds how long the present slots need for the due jobs; absent if unknown
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record TotalDescriptor(
            long due,
            boolean dueIsExact,
            double oldestDueSeconds,
            long startable,
            long running,
            int slots,
            long neededSlots,
            @Nullable Double drainSeconds) {}

    /**
     * The demand of one job name.
     *
     * @param executor the executor that runs the jobs
     * @param paused whether the name is paused
     * @param due the jobs that are due and have not started
     * @param dueIsExact false if counting stopped: there are {@code due} jobs or more
     * @param oldestDueSeconds how long the oldest pending job has been due; 0 if none is due
     * @param startable how many of the due jobs may start now
     * @param running the jobs that run
     * @param slots the slots of all active workers that have the handler, which other names share
     * @param neededSlots the slots that running and startable jobs need
     * @param drainSeconds how long these slots need for the due jobs if they run no others; absent if unknown
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record JobNameDescriptor(
            String executor,
            boolean paused,
            long due,
            boolean dueIsExact,
            double oldestDueSeconds,
            long startable,
            long running,
            int slots,
            long neededSlots,
            @Nullable Double drainSeconds) {}
}

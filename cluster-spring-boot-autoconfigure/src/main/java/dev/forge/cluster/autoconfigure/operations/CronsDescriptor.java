// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Crons, ordered by name, as the resource returns them, in the shape of Spring Boot's {@code scheduledtasks}.
 *
 * @param cron the crons with an expression
 * @param fixedRate the crons with an interval
 */
public record CronsDescriptor(List<CronDescriptor> cron, List<CronDescriptor> fixedRate) {

    /**
     * A cron.
     *
     * @param name the name
     * @param runnable the job it enqueues
     * @param expression the cron expression; absent if it has an interval
     * @param zone the time zone of the expression; absent if it has an interval
     * @param interval the interval in milliseconds; absent if it has an expression
     * @param declared true if it is declared in code, false if it was created at run time
     * @param target leader or any-worker
     * @param capability the capability a worker needs to run it; absent if any worker may
     * @param group the group of its jobs, sanitized; absent: as the handler declares
     * @param misfire what happens to missed slots
     * @param overlap what happens if the previous run has not finished
     * @param state running, paused, or unknown if no live node has its handler
     * @param problem why it does not fire; absent if it does
     * @param lastExecution the last slot that ran
     * @param lastSlot the last slot, if that did not run
     * @param nextExecution the next slot; absent if there is none
     * @param upcoming its next slots, at most five; absent in lists
     * @param runs its latest slots, the newest first; absent in lists
     * @param recent its latest slots in brief, the newest first; absent unless a list is asked for them
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record CronDescriptor(
            String name,
            RunnableDescriptor runnable,
            @Nullable String expression,
            @Nullable String zone,
            @Nullable Long interval,
            boolean declared,
            String target,
            @Nullable String capability,
            @Nullable Object group,
            String misfire,
            String overlap,
            String state,
            @Nullable String problem,
            @Nullable SlotDescriptor lastExecution,
            @Nullable SlotDescriptor lastSlot,
            @Nullable NextExecutionDescriptor nextExecution,
            @Nullable List<Instant> upcoming,
            @Nullable List<SlotDescriptor> runs,
            @Nullable List<RecentSlotDescriptor> recent) {}

    /**
     * What a cron runs.
     *
     * @param target the name of the job
     */
    public record RunnableDescriptor(String target) {}

    /**
     * The next slot of a cron.
     *
     * @param time its planned time
     */
    public record NextExecutionDescriptor(Instant time) {}

    /**
     * A slot of a cron and what became of it.
     *
     * @param time the planned time
     * @param outcome ran, skipped or missed
     * @param status the status of its job as Spring Boot words it: STARTED, SUCCESS or ERROR; absent without a job
     * @param reason why it did not run, or ran outside the schedule
     * @param job the job; absent if none was enqueued
     * @param attempt the number of attempts begun
     * @param error the error of the last attempt, sanitized
     * @param startedAt when the last attempt began
     * @param finishedAt when the job reached a final status
     * @param term the term of the leader that decided the slot; absent if it was triggered by an API call
     * @param decidedAt when the slot was decided
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record SlotDescriptor(
            Instant time,
            String outcome,
            @Nullable String status,
            @Nullable String reason,
            @Nullable UUID job,
            @Nullable Integer attempt,
            @Nullable Object error,
            @Nullable Instant startedAt,
            @Nullable Instant finishedAt,
            @Nullable Long term,
            Instant decidedAt) {}

    /**
     * A slot of a cron in brief.
     *
     * @param time the planned time
     * @param outcome ran, skipped or missed
     * @param status the status of its job: STARTED, SUCCESS or ERROR; absent without a job
     * @param reason why it did not run, or ran outside the schedule
     * @param job the job; absent if none was enqueued
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record RecentSlotDescriptor(
            Instant time,
            String outcome,
            @Nullable String status,
            @Nullable String reason,
            @Nullable UUID job) {}

    /**
     * The response to a state change of a cron.
     *
     * @param name the cron
     * @param state paused, running or triggered
     * @param job the job of a triggered cron
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record CronStateDescriptor(
            String name, String state, @Nullable UUID job) {}
}

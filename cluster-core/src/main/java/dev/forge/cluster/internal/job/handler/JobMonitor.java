// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Receives events about jobs, for metrics and traces. */
public interface JobMonitor {

    /** Ignores all events. */
    JobMonitor NONE = new JobMonitor() {};

    /** Runs an attempt including its transaction, perhaps within an observation. */
    default void observe(Attempt attempt, Runnable run) {
        run.run();
    }

    /** Runs an attempt of several jobs at a time including its transaction, perhaps within observations. */
    default void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        run.run();
    }

    /** Runs or compensates a step of a workflow including its transaction, perhaps within an observation. */
    default void observe(StepAttempt attempt, Runnable run) {
        run.run();
    }

    /** Returns work for another thread that is observed as part of the current observation. */
    default Runnable carried(Runnable work) {
        return work;
    }

    /** An attempt of a step. Its outcome is available after its end. */
    interface StepAttempt {

        String workflow();

        String version();

        String step();

        UUID workflowRun();

        /** Returns whether the step is compensated. */
        default boolean undoing() {
            return false;
        }

        StepOutcome outcome();

        /** Returns the exception that was thrown; null if the attempt succeeded or was only interrupted. */
        @Nullable
        Throwable failure();
    }

    /** How an attempt of a step ended. */
    enum StepOutcome {
        /** The step succeeded and is recorded. */
        COMPLETED,
        /** The step failed. */
        FAILED,
        /** The node leaves, or its claim or the database is lost; the next attempt starts from the beginning. */
        INTERRUPTED
    }

    /** Returns metadata for a new job that link its execution with the code that enqueued it. */
    default Map<String, String> origin(String name) {
        return Map.of();
    }

    /** An attempt of a job. Its outcome is available after its end. */
    interface Attempt {

        JobContext job();

        /** Returns the node that runs the job. */
        UUID node();

        JobAttemptOutcome.Kind outcome();

        /** Returns the exception that was thrown; null if the attempt succeeded or was only interrupted. */
        @Nullable
        Throwable failure();
    }

    /** Called when a job has started, with the time since it was due. */
    default void started(String name, Duration waited) {}

    /** Called after a claim, with its duration. */
    default void claimed(Duration took) {}

    /** Called when a failed attempt will be repeated. */
    default void retried(String name) {}

    /**
     * Called once for each attempt whose end is recorded. Must not allocate or block: it runs for each
     * job.
     *
     * @param ranNanos how long the handler ran; 0 if that is not known
     */
    default void ended(String name, JobAttemptOutcome.Kind outcome, long ranNanos) {}

    /** Returns whether {@code observe} does anything but run the attempt. */
    default boolean observes() {
        return true;
    }

    /** Called when an attempt, or a step of a workflow, has exceeded its timeout. */
    default void timedOut(String name) {}

    /** Called when the result of a handler is discarded because its claim was lost. Cancelled jobs do not count. */
    default void claimLost(String name) {}

    /** Called when a slot of a cron was decided. */
    default void fired(String cron, CronRun.Outcome result) {}

    /**
     * Called when a job has ended as failed or abandoned, and that is recorded.
     *
     * @param error the last error
     */
    default void failed(UUID id, String name, JobStatus status, String error) {}

    /** Called when a job was taken from a dead or silent node. */
    default void recovered(String name) {}
}

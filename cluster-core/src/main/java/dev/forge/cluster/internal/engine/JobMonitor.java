package dev.forge.cluster.internal.engine;

import dev.forge.cluster.CronRun;
import dev.forge.cluster.JobContext;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** What metrics and traces want to know of jobs. */
public interface JobMonitor {

    /** Nobody wants to know. */
    JobMonitor NONE = new JobMonitor() {};

    /** Runs an attempt, with its transaction if it has one, perhaps within an observation. */
    default void observe(Attempt attempt, Runnable run) {
        run.run();
    }

    /** Runs a step of a workflow, or undoes it, with its transaction if it has one, perhaps within an observation. */
    default void observe(StepAttempt attempt, Runnable run) {
        run.run();
    }

    /** What another thread does for this one, seen as part of what is observed here. */
    default Runnable carried(Runnable work) {
        return work;
    }

    /** An attempt of a step. How it ended can be asked once it has. */
    interface StepAttempt {

        String workflow();

        String version();

        String step();

        UUID workflowRun();

        /** Whether the step is undone. */
        default boolean undoing() {
            return false;
        }

        StepEnding outcome();

        /** What it threw; null if it returned, or was only interrupted. */
        @Nullable
        Throwable failure();
    }

    /** How an attempt of a step ended. */
    enum StepEnding {
        /** It is done, and remembered. */
        COMPLETED,
        /** It failed. */
        FAILED,
        /** The node leaves, or its claim or the database is lost; whoever runs it next begins it anew. */
        INTERRUPTED
    }

    /** What to attach to a new job, so that its execution can be linked with whoever enqueued it. */
    default Map<String, String> origin(String name) {
        return Map.of();
    }

    /** A handler's run. How it ended can be asked once it has. */
    interface Attempt {

        JobContext job();

        /** The node that runs it. */
        UUID node();

        Ending outcome();

        /** What it threw; null if it returned, or was only interrupted. */
        @Nullable
        Throwable failure();
    }

    /** How an attempt ended. */
    enum Ending {
        /** Done. */
        COMPLETED,
        /** It comes back later, without having spent an attempt. */
        SNOOZED,
        /** It failed, and will be tried again. */
        RETRIED,
        /** It failed for good. */
        FAILED,
        /** Interrupted because the node leaves, or its transaction could not begin; it will be run later. */
        RETURNED,
        /** The job was no longer this node's; what the handler did was dropped. */
        LOST
    }

    /** A job has begun, that long after it was due. */
    default void started(String name, Duration waited) {}

    /** A claim took that long. */
    default void claimed(Duration took) {}

    /** A failed attempt will be repeated. */
    default void retried(String name) {}

    /** An attempt, or a step of a workflow, has exceeded its timeout. */
    default void timedOut(String name) {}

    /** What a handler did was dropped, because its job was no longer this node's. Cancelled jobs do not count. */
    default void claimLost(String name) {}

    /** A slot of a cron was decided. */
    default void fired(String cron, CronRun.Outcome result) {}

    /** A job was taken from a dead or silent node. */
    default void recovered(String name) {}
}

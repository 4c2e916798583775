// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import org.jspecify.annotations.Nullable;

/**
 * Explains why a job is not running.
 *
 * @param text the reason as a sentence with names, times and the next step
 * @param signal the name of the signal that the text names; null unless the reason is {@link Reason#WAITING_FOR_SIGNAL}
 */
public record JobExplanation(
        Reason reason, String text, @Nullable String signal) {

    /** Creates an explanation that names no signal. */
    public JobExplanation(Reason reason, String text) {
        this(reason, text, null);
    }

    /** The first reason that applies, in this order. */
    public enum Reason {
        /** The job does not exist; its retention may have passed. */
        NOT_FOUND,
        /** The job is running. */
        RUNNING,
        /** The job is running past its timeout: its handler ignores the interrupt. */
        RUNNING_PAST_TIMEOUT,
        /** A node has claimed the job and will start it. */
        CLAIMED,
        /** The job has ended. */
        FINISHED,
        /** A running job with the same unique key must end first. */
        WAITING_FOR_PREDECESSOR,
        /** The job is a callback, or carries a run of a workflow, and the jobs of a batch must end first. */
        WAITING_FOR_BATCH,
        /** The jobs after which it runs have not ended. */
        WAITING_FOR_JOBS,
        /** The job's name is paused. */
        PAUSED,
        /** The job carries a run of a workflow, which is blocked: no live node has its version, or its method has changed. */
        RUN_BLOCKED,
        /** The job carries a run of a workflow, which waits for a signal. */
        WAITING_FOR_SIGNAL,
        /** The job is not due yet. */
        NOT_DUE,
        /** No live node has the role worker. */
        NO_LIVE_WORKER,
        /** No live worker has a handler of that name. */
        UNKNOWN_NAME,
        /** No live worker with the handler offers the job's capability. */
        NO_CAPABLE_WORKER,
        /** An earlier job of its group must end first: the jobs of the group are ordered. */
        WAITING_FOR_ORDER,
        /** As many jobs of its name run as are allowed. */
        NAME_FULL,
        /** As many jobs of its group run as are allowed. */
        GROUP_FULL,
        /** The rate of its group allows no start yet. */
        GROUP_RATE,
        /** All workers that could run the job are busy. */
        WORKERS_FULL,
        /** Nothing prevents the job from starting. */
        ABOUT_TO_START
    }
}

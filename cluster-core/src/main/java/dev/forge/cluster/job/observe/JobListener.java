// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import java.util.UUID;

/**
 * Observes the jobs that run on this node. Beans of this type are called in the order of {@code @Order}. An exception of a
 * listener is logged and changes nothing. A listener that takes long delays the jobs.
 *
 * <p>Listeners are called once and on one node, and not at all if the node crashes at that moment. Work that must follow a job
 * belongs in its handler.
 *
 * @see JobInterceptor
 */
public interface JobListener {

    /** Called on the handler's thread before each attempt, before its transaction begins. */
    default void beforeAttempt(JobContext job) {}

    /**
     * Called on the handler's thread after each attempt, after its transaction has ended. The end of a handler without a
     * transaction is recorded right after the listeners have returned; if the claim was lost by then, the outcome does not count.
     */
    default void afterAttempt(JobContext job, JobAttemptOutcome outcome) {}

    /**
     * Called when a job has ended as failed or abandoned: after its last attempt on the node that ran it, or, if its nodes died
     * too often, on the node that gave it up.
     */
    default void failedPermanently(UUID id, String name, JobStatus status, String error) {}
}

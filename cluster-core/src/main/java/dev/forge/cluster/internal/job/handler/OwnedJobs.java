// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.job.operations.JobExplanation;
import java.util.Optional;
import java.util.UUID;

/**
 * Jobs that another capability enqueues for itself, recognised by a prefix of their names. Applications can neither enqueue nor
 * cancel nor retry them. Unique keys with the same prefix belong to jobs of the application that such a job waits for.
 */
public interface OwnedJobs {

    /** Returns the prefix of their names and of the unique keys of jobs that they wait for. */
    String prefix();

    /** Returns what these jobs are, in the plural, for error messages. */
    String description();

    /** Returns how an application starts one, as the end of an error message. */
    String startAdvice();

    /** Returns how an application cancels one, as the end of an error message. */
    String cancelAdvice();

    /** Returns how an application retries one, as the end of an error message. */
    String retryAdvice();

    /**
     * Returns an SQL condition on a finished job {@code j} of the application: whether an owned job still has to read its result, so
     * that the purge must keep it. Table names are written as in {@link
     * dev.forge.cluster.internal.database.Schema#sql}.
     */
    String awaitedCondition();

    /** Returns whether an owned job waits for the end of this job. */
    boolean isAwaited(Claimed job);

    /** Returns what an owned job that is pending waits for; empty if nothing but what any job may wait for. */
    Optional<JobExplanation> explain(UUID job);

    /** Returns whether a name belongs to these jobs. */
    default boolean matches(String name) {
        return name.startsWith(prefix());
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.store.JobClaimStore.Claimed;

/** The jobs that carry runs of workflows. */
public final class WorkflowJobs implements OwnedJobs {

    /** The metadata key of jobs that a run waits for; its value is the id of the run. */
    public static final String AWAITED_KEY = "forge.workflow";

    @Override
    public String prefix() {
        return WorkflowVersion.JOB_PREFIX;
    }

    @Override
    public String description() {
        return "runs of workflows";
    }

    @Override
    public String startAdvice() {
        return "Workflows.start begins one";
    }

    @Override
    public String cancelAdvice() {
        return "Workflows.cancel cancels and compensates it";
    }

    @Override
    public String retryAdvice() {
        return "Workflows.retry continues it";
    }

    @Override
    public String awaitedCondition() {
        return """
                coalesce(starts_with(j.unique_key, '%s'), false) AND EXISTS (
                    SELECT FROM ~.forge_workflow_steps s WHERE s.ref = j.id AND s.status = 'waiting')""".formatted(WorkflowVersion.JOB_PREFIX);
    }

    @Override
    public boolean isAwaited(Claimed job) {
        // PostgreSQL prints a colon after a key. Applications cannot set this key, and the quotes inside of a value are
        // escaped.
        return job.metadata().contains("\"" + AWAITED_KEY + "\":");
    }
}

package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.OwnedJobs;

/** The jobs that carry runs of workflows. */
public final class WorkflowJobs implements OwnedJobs {

    @Override
    public String prefix() {
        return WorkflowStore.PREFIX;
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
                    SELECT FROM ~.forge_workflow_steps s WHERE s.ref = j.id AND s.status = 'waiting')""".formatted(WorkflowStore.PREFIX);
    }

    @Override
    public boolean isAwaited(Claimed job) {
        // A key of the metadata that applications cannot set; inside of a value its quotes would be escaped.
        return job.metadata().contains("\"" + WorkflowStore.AWAITED + "\"");
    }
}

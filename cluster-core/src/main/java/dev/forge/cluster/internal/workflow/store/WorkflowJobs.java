// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import java.time.Instant;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** The jobs that carry runs of workflows. */
public final class WorkflowJobs implements OwnedJobs {

    /** The metadata key of jobs that a run waits for; its value is the id of the run. */
    public static final String AWAITED_KEY = "forge.workflow";

    private final Function<UUID, Optional<WorkflowReports.Wait>> waits;

    /** @param waits returns what a run waits for, see {@link WorkflowReports#waitOf} */
    public WorkflowJobs(Function<UUID, Optional<WorkflowReports.Wait>> waits) {
        this.waits = waits;
    }

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
        return isAwaitedByRun(job);
    }

    /** Returns whether a run waits for the end of this job. */
    public static boolean isAwaitedByRun(Claimed job) {
        // PostgreSQL prints a colon after a key. Applications cannot set this key, and the quotes inside of a value are
        // escaped.
        return job.metadata().contains("\"" + AWAITED_KEY + "\":");
    }

    @Override
    public Optional<JobExplanation> explain(UUID job) {
        return waits.apply(job).flatMap(WorkflowJobs::explain);
    }

    private static Optional<JobExplanation> explain(WorkflowReports.Wait run) {
        return switch (run.status()) {
            case BLOCKED_MISSING_VERSION ->
                Optional.of(blocked("no live node has the version %s of the workflow %s"
                        .formatted(
                                Names.printable(run.version().version()),
                                Names.printable(run.version().workflow()))));
            case BLOCKED_SIGNATURE_MISMATCH -> Optional.of(blocked("its method does not match its recorded history"));
            case WAITING -> Optional.ofNullable(run.signal()).map(signal -> waiting(signal, run.until()));
            case RUNNING, COMPENSATING, COMPLETED, COMPENSATED, FAILED, RETIRED_UNRESUMABLE, CANCELLED_BY_OPERATOR ->
                Optional.empty();
        };
    }

    private static JobExplanation blocked(String cause) {
        return new JobExplanation(
                Reason.RUN_BLOCKED, "Its run is blocked: %s; see the workflow's page.".formatted(cause));
    }

    private static JobExplanation waiting(String signal, @Nullable Instant until) {
        return new JobExplanation(
                Reason.WAITING_FOR_SIGNAL,
                "Its run waits for signal '%s'%s."
                        .formatted(
                                signal,
                                until == null ? "" : ", until %s at the latest".formatted(PlainText.time(until))),
                signal);
    }
}

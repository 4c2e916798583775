// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.operate.JobFailureReports;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;

/** Finds work that failed for good: jobs, batches and runs of workflows. However few they are, nothing but an operator retries them. */
final class FailureAttention implements AttentionReports.Source {

    private static final int LIMIT = AttentionItems.MOST_OF_A_KIND + 1;

    private final JobHandlers handlers;
    private final JobFailureReports jobs;
    private final JobBatchReports batches;
    private final WorkflowReports workflows;

    FailureAttention(JobHandlers handlers, JobFailureReports jobs, JobBatchReports batches, WorkflowReports workflows) {
        this.handlers = handlers;
        this.jobs = jobs;
        this.batches = batches;
        this.workflows = workflows;
    }

    @Override
    public void find(AttentionItems items, AttentionThresholds thresholds) {
        Duration within = thresholds.failedWithin();
        // Runs of workflows are reported as such.
        List<String> reserved = handlers.ownedPrefixes();
        jobs.failed(within, reserved, 2 * LIMIT).stream()
                .filter(failed -> !items.contains(Kind.FAILING_JOBS, failed.name()))
                .forEach(failed -> add(items, failed));
        batches.failed(within, LIMIT).forEach(batch -> add(items, batch));
        workflows.failed(within).forEach(failed -> add(items, failed));
    }

    private static void add(AttentionItems items, JobFailureReports.Failed failed) {
        String many = failed.jobs() >= JobFailureReports.MOST_COUNTED ? "at least " : "";
        if (failed.status() == JobStatus.ABANDONED) {
            items.warning(
                    Kind.ABANDONED_JOBS,
                    failed.name(),
                    "Job %s: %s%s abandoned in the last day, because the nodes that ran them died."
                            .formatted(
                                    Names.printable(failed.name()),
                                    many,
                                    PlainText.count(failed.jobs(), "job was", "jobs were")),
                    "Find out whether the jobs crash their nodes. Then retry the jobs, or delete them.");
        } else {
            items.warning(
                    Kind.FAILED_JOBS,
                    failed.name(),
                    "Job %s: %s%s failed for good in the last day."
                            .formatted(
                                    Names.printable(failed.name()),
                                    many,
                                    PlainText.count(failed.jobs(), "job", "jobs")),
                    "Look at their errors and remove the cause. Then retry the jobs, or delete them.");
        }
    }

    /** Without its name, which not everybody may see. */
    private static void add(AttentionItems items, JobBatchInfo batch) {
        items.warning(
                Kind.FAILED_BATCH,
                batch.id().toString(),
                "Batch %s: %s."
                        .formatted(
                                batch.id(),
                                batch.failed() > 0
                                        ? PlainText.count(batch.failed(), "job has failed", "jobs have failed")
                                        : "a part of it has failed"),
                "Look at the errors of its jobs, remove the cause, and retry the failed jobs. The batch succeeds when all have completed.");
    }

    private static void add(AttentionItems items, WorkflowReports.Count failed) {
        String label = failed.version().label();
        if (failed.status() == WorkflowStatus.COMPENSATED) {
            items.warning(
                    Kind.COMPENSATED_WORKFLOWS,
                    label,
                    "Workflow %s: %s in the last day, and compensated."
                            .formatted(
                                    Names.printable(label),
                                    PlainText.count(failed.runs(), "run failed", "runs failed")),
                    "Look at the errors of the runs. What they should have done was undone; start it again if it is still needed.");
        } else {
            items.critical(
                    Kind.FAILED_WORKFLOWS,
                    label,
                    "Workflow %s: %s in the last day."
                            .formatted(
                                    Names.printable(label),
                                    PlainText.count(failed.runs(), "run failed", "runs failed")),
                    "Look at the errors of the runs, remove the cause, and retry the runs.");
        }
    }
}

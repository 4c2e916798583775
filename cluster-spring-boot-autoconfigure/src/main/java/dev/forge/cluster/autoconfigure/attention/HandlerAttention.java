// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobStatus;
import java.util.Set;
import java.util.TreeMap;

/** Finds workflows, crons and daemons that need attention. */
final class HandlerAttention implements AttentionReports.Source {

    private static final int MOST_CRONS = 1_000;

    private final WorkflowReports workflows;
    private final WorkflowKeeping versions;
    private final Crons crons;
    private final Daemons daemons;

    HandlerAttention(WorkflowReports workflows, WorkflowKeeping versions, Crons crons, Daemons daemons) {
        this.workflows = workflows;
        this.versions = versions;
        this.crons = crons;
        this.daemons = daemons;
    }

    @Override
    public void find(AttentionItems items, AttentionThresholds thresholds) {
        findWorkflows(items);
        crons.list(MOST_CRONS).items().forEach(cron -> find(items, cron));
        daemons.list().forEach(daemon -> find(items, thresholds, daemon));
    }

    // Workflows ---------------------------------------------------------------------------------------------

    private void findWorkflows(AttentionItems items) {
        var blocked = new TreeMap<String, Long>();
        var stranded = new TreeMap<String, Long>();
        Set<WorkflowVersion> live = Set.of();
        boolean known = false;
        for (WorkflowReports.Count count : workflows.unfinished()) {
            String label = count.version().label();
            switch (count.status()) {
                case BLOCKED_MISSING_VERSION -> stranded.merge(label, count.runs(), Long::sum);
                case BLOCKED_SIGNATURE_MISMATCH -> blocked.merge(label, count.runs(), Long::sum);
                case RUNNING, WAITING, COMPENSATING -> {
                    if (!known) {
                        live = versions.versionsOfLiveWorkers().keySet();
                        known = true;
                    }
                    if (!live.contains(count.version())) {
                        stranded.merge(label, count.runs(), Long::sum);
                    }
                }
                case COMPLETED, COMPENSATED, FAILED, RETIRED_UNRESUMABLE, CANCELLED_BY_OPERATOR -> {
                    // They have ended.
                }
            }
        }
        blocked.forEach(
                (label, runs) -> items.critical(
                        Kind.BLOCKED_WORKFLOWS,
                        label,
                        "Workflow %s: %s blocked, because the method does not match the recorded history."
                                .formatted(Names.printable(label), PlainText.count(runs, "run is", "runs are")),
                        "Deploy the code that the runs began with, or give a changed method a new version; then retry the runs."));
        stranded.forEach((label, runs) -> items.critical(
                Kind.STRANDED_WORKFLOWS,
                label,
                "Workflow %s: %s in flight, and no live node has this version."
                        .formatted(Names.printable(label), PlainText.count(runs, "run is", "runs are")),
                "Start nodes that have this version; the runs then continue. Otherwise cancel them."));
    }

    // Crons -------------------------------------------------------------------------------------------------

    private static void find(AttentionItems items, CronInfo cron) {
        String name = cron.name();
        String problem = cron.problem();
        CronRun latest = cron.latest();
        CronRun last = cron.lastRun();
        if (cron.paused()) {
            return;
        }
        if (problem != null) {
            items.critical(
                    Kind.STOPPED_CRON,
                    name,
                    "Cron %s: it does not fire: %s".formatted(Names.printable(name), problem),
                    "Correct its definition, or delete the cron.");
        } else if (!cron.runnable() && cron.next() != null) {
            items.critical(
                    Kind.STOPPED_CRON,
                    name,
                    "Cron %s: no live node can run its handler; its slots wait.".formatted(Names.printable(name)),
                    "Start a node that has the handler, or delete the cron.");
        }
        if (latest != null && latest.outcome() == CronRun.Outcome.MISSED) {
            items.warning(
                    Kind.MISSED_CRON,
                    name,
                    "Cron %s: its slot of %s was missed: no node could fire it in time."
                            .formatted(Names.printable(name), PlainText.time(latest.slot())),
                    "Trigger the cron if the run must be made up for, and find out why no scheduler was up.");
        } else if (last != null && (last.jobStatus() == JobStatus.FAILED || last.jobStatus() == JobStatus.ABANDONED)) {
            items.critical(
                    Kind.FAILED_CRON,
                    name,
                    "Cron %s: its run of %s has failed, job %s."
                            .formatted(Names.printable(name), PlainText.time(last.slot()), last.job()),
                    "Look at the error of the job, remove the cause, and retry the job or trigger the cron.");
        }
    }

    // Daemons -----------------------------------------------------------------------------------------------

    private static void find(AttentionItems items, AttentionThresholds thresholds, DaemonInfo daemon) {
        for (DaemonInfo.Instance instance : daemon.instances()) {
            String label = "Daemon %s, instance %d".formatted(Names.printable(daemon.name()), instance.number());
            if (instance.status() == DaemonStatus.FAILED) {
                items.critical(
                        Kind.FAILED_DAEMON,
                        daemon.name(),
                        "%s: it has failed after %s and does not run."
                                .formatted(label, PlainText.count(instance.restarts(), "restart", "restarts")),
                        "Look at its last error, remove the cause, and resume the daemon.");
            } else if (instance.restarts() >= thresholds.restarts() && instance.lastError() != null) {
                items.warning(
                        Kind.RESTARTING_DAEMON,
                        daemon.name(),
                        "%s: it was restarted %s after failures."
                                .formatted(label, PlainText.count(instance.restarts(), "time", "times")),
                        "Look at its last error and remove the cause; pause the daemon if its restarts do harm.");
            }
        }
    }
}

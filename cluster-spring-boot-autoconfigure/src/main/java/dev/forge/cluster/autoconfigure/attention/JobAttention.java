// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.history.JobHistoryReports;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Place;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import dev.forge.cluster.job.operations.JobOperations;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;

/** Finds jobs that need attention. */
final class JobAttention implements AttentionReports.Source {

    private static final Duration LAST_HOUR = Duration.ofHours(1);
    private static final int LIMIT = AttentionItems.MOST_OF_A_KIND + 1;

    private final JobOperations operations;
    private final JobHandlers handlers;
    private final JobHistoryReports history;
    private final JobDemandReports demand;
    private final JobNameStore names;

    JobAttention(
            JobOperations operations,
            JobHandlers handlers,
            JobHistoryReports history,
            JobDemandReports demand,
            JobNameStore names) {
        this.operations = operations;
        this.handlers = handlers;
        this.history = history;
        this.demand = demand;
        this.names = names;
    }

    @Override
    public void find(AttentionItems items, AttentionThresholds thresholds) {
        findFailing(items, thresholds);
        List<String> reserved = handlers.ownedPrefixes();
        findUnhandled(items, reserved);
        JobDemand waiting = operations.demand();
        Set<String> live = names.liveNames();
        findPaused(items, waiting, live);
        findOverdue(items, thresholds, overdue(waiting, thresholds.overdue(), live, reserved));
    }

    private void findFailing(AttentionItems items, AttentionThresholds thresholds) {
        for (JobHistoryReports.Failing name :
                history.failing(LAST_HOUR, thresholds.failures(), thresholds.failureRatio(), LIMIT)) {
            String text = "Job %s: %s failed in the last hour, %d%% of all; %s failed for good."
                    .formatted(
                            Names.printable(name.name()),
                            PlainText.count(name.failed() + name.retried(), "attempt", "attempts"),
                            Math.round(name.ratio() * 100),
                            PlainText.count(name.failed(), "job", "jobs"));
            String nextStep = "Look at the errors of its jobs, remove the cause, and retry the failed ones."
                    + " Pause the name if its attempts do harm.";
            if (name.ratio() >= thresholds.criticalRatio()) {
                items.critical(Kind.FAILING_JOBS, name.name(), text, nextStep);
            } else {
                items.warning(Kind.FAILING_JOBS, name.name(), text, nextStep);
            }
        }
    }

    /** @param reserved prefixes of names that are left out: runs of workflows are reported as such */
    private void findUnhandled(AttentionItems items, List<String> reserved) {
        Map<String, Long> orphans = names.orphanedNames(LIMIT, reserved).first();
        orphans.forEach((name, count) -> items.critical(
                Kind.UNHANDLED_JOBS,
                name,
                "Job %s: %s pending, and no live node has a handler of that name."
                        .formatted(Names.printable(name), PlainText.count(count, "job is", "jobs are")),
                "Start nodes that have the handler. If the job was renamed, add the old name to the aliases of its handler;"
                        + " otherwise cancel the jobs."));
    }

    private static void findPaused(AttentionItems items, JobDemand waiting, Set<String> live) {
        var paused = new TreeMap<String, JobCount>(
                Comparator.comparing((String name) -> !live.contains(name)).thenComparing(Comparator.naturalOrder()));
        waiting.entries().stream()
                .filter(entry -> entry.paused() && entry.due().jobs() > 0)
                .forEach(entry -> paused.merge(
                        entry.name(),
                        entry.due(),
                        (a, b) -> new JobCount(a.jobs() + b.jobs(), a.exact() && b.exact())));
        paused.forEach((name, due) -> items.warning(
                Kind.PAUSED_JOBS,
                name,
                "Job %s: it is paused, and %s."
                        .formatted(Names.printable(name), text(due, "due job waits", "due jobs wait")),
                "Resume the name when its jobs may run again."));
    }

    private static String text(JobCount count, String one, String many) {
        return count.exact()
                ? PlainText.count(count.jobs(), one, many)
                : "more than %d %s".formatted(count.jobs(), many);
    }

    /** An entry, and which of those of its name it is. */
    private record Turn(Entry entry, int number) {}

    /**
     * Returns overdue entries of names that live nodes have a handler for, and of reserved ones after them; others are unhandled, not
     * overdue. Anybody who may enqueue can make up capabilities: each name has its turn before any has a second one.
     */
    private static List<Entry> overdue(JobDemand waiting, Duration than, Set<String> live, List<String> reserved) {
        var ofName = new HashMap<String, Integer>();
        return waiting.entries().stream()
                .filter(entry -> !entry.paused() && age(entry).compareTo(than) > 0)
                .filter(entry ->
                        live.contains(entry.name()) || reserved.stream().anyMatch(entry.name()::startsWith))
                .sorted(Comparator.comparing((Entry entry) -> entry.slots() == 0)
                        .thenComparing(JobAttention::age, Comparator.reverseOrder()))
                .map(entry -> new Turn(entry, ofName.merge(entry.name(), 1, Integer::sum)))
                .sorted(Comparator.comparing((Turn turn) -> !live.contains(turn.entry.name()))
                        .thenComparing(Turn::number)
                        .thenComparing(turn -> age(turn.entry), Comparator.reverseOrder()))
                .limit(LIMIT)
                .map(Turn::entry)
                .toList();
    }

    private void findOverdue(AttentionItems items, AttentionThresholds thresholds, List<Entry> overdue) {
        for (Entry entry : overdue) {
            String capability = entry.capability();
            UUID oldest = demand.oldest(new Place(entry.name(), capability == null ? "" : capability))
                    .orElse(null);
            if (oldest == null) {
                // It has started meanwhile.
                continue;
            }
            String text = "Job %s: its oldest job %s has been due for %s, with %s. Reason: %s."
                    .formatted(
                            Names.printable(entry.name()),
                            oldest,
                            PlainText.duration(age(entry)),
                            text(
                                    new JobCount(
                                            entry.due().jobs() - 1, entry.due().exact()),
                                    "other",
                                    "others"),
                            // Not the whole explanation: it may name a group, a key or a batch, which not everybody may
                            // see.
                            EnumText.hyphenated(operations.explain(oldest).reason()));
            String nextStep = entry.slots() == 0
                    ? "Start workers that have the handler and offer the capability."
                    : "Add workers or slots, or raise the limit that the reason names.";
            if (age(entry).compareTo(thresholds.criticalOverdue()) > 0) {
                items.critical(Kind.OVERDUE_JOBS, entry.name(), text, nextStep);
            } else {
                items.warning(Kind.OVERDUE_JOBS, entry.name(), text, nextStep);
            }
        }
    }

    private static Duration age(Entry entry) {
        Duration age = entry.oldestDueAge();
        return age == null ? Duration.ZERO : age;
    }
}

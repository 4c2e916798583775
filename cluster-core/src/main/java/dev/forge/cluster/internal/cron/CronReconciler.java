// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronSetStore.LiveSets;
import dev.forge.cluster.internal.cron.CronSlotStore.CronAdvance;
import dev.forge.cluster.internal.cron.CronSlotStore.DecidedSlot;
import dev.forge.cluster.internal.cron.CronStore.CronRow;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.ScheduledDefinition;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeTime;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/**
 * Brings {@code forge_crons} in line with the crons that the builds of live nodes declare: adds, changes and removes declared
 * crons, restarts crons that can be parsed again, reroutes runs that this leader cannot run, and warns about definitions that
 * work but may not be intended. Confined to the thread of the leader's loop.
 */
final class CronReconciler {

    private static final Logger log = GuardedLogger.of(CronReconciler.class);
    private static final Duration INTERVAL = Duration.ofSeconds(5);
    /** How long a cron that no live node declares stays in the table: a service that restarts declares it again. */
    private static final Duration REMOVE_ORPHANS_AFTER = Duration.ofSeconds(15);
    /** Longer than a deployment: builds that differ about a cron for longer may be two applications. */
    private static final Duration WARN_OF_DISPUTE_AFTER = Duration.ofMinutes(5);

    private static final Duration WARN_OF_LONG_RUNS_AFTER = Duration.ofMinutes(1);

    private final NodeTime time;
    private final JobEngine jobs;
    private final CronDeclarations declarations;
    private final CronSchedules schedules;
    private final ScheduleReplacement replacement;
    private final CronStore store;
    private final CronSetStore sets;
    private final CronSlotStore slotStore;
    private final JobScheduleStore jobRows;

    private long nextPass;
    private @Nullable Set<String> reconciled;
    /** Handlers of crons for the leader that this node does not have. */
    private Set<String> foreignHandlers = Set.of();

    private final Map<String, Long> orphanedSince = new HashMap<>();
    private final Map<String, Long> disputedSince = new HashMap<>();
    private final Set<String> disputesLogged = new HashSet<>();
    private boolean longRunsLogged;
    /** Whether the last pass failed. */
    private boolean failing;

    private volatile Duration removeOrphansAfter = REMOVE_ORPHANS_AFTER;
    private volatile Duration warnOfDisputeAfter = WARN_OF_DISPUTE_AFTER;
    private volatile Duration warnOfLongRunsAfter = WARN_OF_LONG_RUNS_AFTER;

    CronReconciler(
            NodeTime time,
            Node.Resources resources,
            JobEngine jobs,
            CronDeclarations declarations,
            CronSchedules schedules,
            ScheduleReplacement replacement) {
        this.time = time;
        this.jobs = jobs;
        this.declarations = declarations;
        this.schedules = schedules;
        this.replacement = replacement;
        this.store = new CronStore(resources.schema(), resources.control());
        this.sets = new CronSetStore(resources.schema(), resources.control());
        this.slotStore = new CronSlotStore(resources.schema(), resources.control());
        this.jobRows = new JobScheduleStore(resources.schema(), resources.control());
    }

    void removeOrphansAfter(Duration delay) {
        removeOrphansAfter = delay;
    }

    void warnAfter(Duration delay) {
        warnOfDisputeAfter = delay;
        warnOfLongRunsAfter = delay;
    }

    /** Forgets everything that an earlier term has found. */
    void reset() {
        reconciled = null;
        nextPass = time.nanos();
        orphanedSince.clear();
    }

    boolean isDue() {
        return time.nanos() - nextPass >= 0;
    }

    /** Makes the next pass compare all definitions, even if the live builds are the same. */
    void markOutdated() {
        reconciled = null;
    }

    /**
     * Runs one pass. A failure is logged and leaves the rest to the next pass, so that crons are fired nevertheless.
     *
     * @return slots that were decided because their schedule was replaced
     */
    List<DecidedSlot> pass(SchedulerTerm term) {
        nextPass = time.nanos() + Math.min(INTERVAL.toNanos(), removeOrphansAfter.toNanos());
        List<DecidedSlot> decided = List.of();
        try {
            decided = reconcile(term);
            restartStopped(term);
            rerouteForeignRuns(term);
            warn();
            failing = false;
        } catch (RuntimeException e) {
            // Not only of the database: a definition that was edited by hand, or is of a newer build, may be
            // unreadable.
            if (DatabaseFailure.kind(e).isOfServer()) {
                // Crons cannot be fired either, and the loop reports that once.
                throw e;
            }
            log.atLevel(failing ? Level.DEBUG : Level.WARN)
                    .setCause(ErrorText.loggable(e))
                    .log(
                            "Crons: definitions could not be brought in line with those of live nodes. Each pass tries again;"
                                    + " further failures are logged at DEBUG.");
            failing = true;
        }
        return decided;
    }

    private List<DecidedSlot> reconcile(SchedulerTerm term) {
        LiveSets live = sets.liveSets();
        if (!live.complete()) {
            // A node that joins stores its set next, and notifies the leader.
            return List.of();
        }
        if (live.digests().equals(reconciled) && orphanedSince.isEmpty()) {
            return List.of();
        }
        var changes = new Changes(term.number());
        if (!term.commit(() -> changes.apply(live.digests()))) {
            return List.of();
        }
        reconciled = changes.complete ? live.digests() : null;
        changes.log();
        return changes.decided;
    }

    /** Computes the next slot of crons that a leader could not parse and this one can, or that were corrected. */
    private void restartStopped(SchedulerTerm term) {
        term.commit(() -> {
            var advances = new ArrayList<CronAdvance>();
            for (CronRow cron : store.lockStopped()) {
                String name = cron.definition().name();
                try {
                    Instant next = schedules.of(cron.definition()).next(store.now());
                    if (next != null) {
                        advances.add(new CronAdvance(name, next, null, null, null));
                    }
                } catch (IllegalArgumentException e) {
                    if (!Objects.equals(e.getMessage(), cron.problem())) {
                        advances.add(new CronAdvance(name, null, null, null, e.getMessage()));
                    }
                }
            }
            if (!advances.isEmpty()) {
                slotStore.advance(advances);
            }
        });
    }

    /** Reroutes runs that an earlier leader has left and that this one cannot run because it lacks their handler. */
    private void rerouteForeignRuns(SchedulerTerm term) {
        if (foreignHandlers.isEmpty()) {
            return;
        }
        var rerouted = new AtomicInteger();
        boolean committed = term.commit(() -> rerouted.set(
                jobRows.reroute(foreignHandlers, LeaderCapabilities.LEADER, LeaderCapabilities.SCHEDULER)));
        if (committed && rerouted.get() > 0) {
            jobs.announce(JobPriority.NORMAL);
        }
    }

    private void warn() {
        long now = time.nanos();
        List<String> disputed = disputedSince.entrySet().stream()
                .filter(dispute ->
                        now - dispute.getValue() > warnOfDisputeAfter.toNanos() && disputesLogged.add(dispute.getKey()))
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
        if (!disputed.isEmpty()) {
            log.warn(
                    "Crons {}: live builds have declared them differently for {} s; the newest build counts. If these are"
                            + " different applications, give the crons different names.",
                    Names.printable(disputed),
                    warnOfDisputeAfter.toSeconds());
        }
        List<String> running = jobs.cronsOccupyingTheLeader(warnOfLongRunsAfter);
        if (!running.isEmpty() && !longRunsLogged) {
            log.warn(
                    "Crons {} have occupied all cron slots of the leader for more than {} s; other crons wait. Give them a"
                            + " timeout or target = ANY_WORKER, or raise forge.cluster.cron.max-concurrent-jobs.",
                    running,
                    warnOfLongRunsAfter.toSeconds());
        }
        longRunsLogged = !running.isEmpty();
    }

    /** The changes of one transaction. */
    private final class Changes {
        private final long term;
        private final List<String> added = new ArrayList<>();
        private final List<String> changed = new ArrayList<>();
        private final List<DecidedSlot> decided = new ArrayList<>();
        private List<String> removed = List.of();
        private int removedRows;
        /** False if another transaction has locked a cron that has to change; the next pass tries again. */
        private boolean complete = true;

        Changes(long term) {
            this.term = term;
        }

        void apply(Set<String> live) {
            Instant now = store.now();
            Map<String, CronRow> rows = byName(store.rows());
            List<Definition> wanted = sets.definitions(live);
            Set<String> disputed = live.size() > 1 ? sets.disputed(live) : Set.of();
            disputedSince.keySet().retainAll(disputed);
            disputed.forEach(name -> disputedSince.putIfAbsent(name, time.nanos()));
            removed = orphans(rows, wanted);
            if (!removed.isEmpty()) {
                removedRows = store.remove(removed);
            }
            put(wanted, rows, now);
            foreignHandlers = Stream.concat(
                            wanted.stream(), rows.values().stream().map(CronRow::definition))
                    .filter(cron -> cron.target() == CronTarget.LEADER)
                    .map(Definition::handler)
                    .filter(handler -> declarations.handlers().named(handler) == null)
                    .collect(Collectors.toSet());
        }

        private void put(List<Definition> wanted, Map<String, CronRow> rows, Instant now) {
            // Read again: until now, other transactions may have moved the slots of the crons that were read.
            Map<String, CronRow> locked = byName(store.lockAvailable(wanted.stream()
                    .filter(cron -> {
                        CronRow row = rows.get(cron.name());
                        return row != null && !row.definition().equals(cron);
                    })
                    .map(Definition::name)
                    .toList()));
            var put = new ArrayList<ScheduledDefinition>();
            for (Definition cron : wanted) {
                CronRow row = rows.get(cron.name());
                try {
                    if (row == null) {
                        put.add(scheduled(cron, now));
                        added.add(cron.name());
                        warnOfJitter(cron, now);
                    } else if (!row.declared()) {
                        log.warn(
                                "Cron {}: the declaration in code is ignored, because a cron of that name was created at run"
                                        + " time. Delete that cron, or rename one of them.",
                                Names.printable(cron.name()));
                    } else if (!row.definition().equals(cron)) {
                        CronRow current = locked.get(cron.name());
                        if (current == null) {
                            complete = false;
                        } else {
                            put.add(replace(current, cron, now));
                            warnOfJitter(cron, now);
                            changed.add(cron.name());
                        }
                    }
                } catch (IllegalArgumentException e) {
                    // Another build's declaration: its JVM may know newer time zones.
                    log.error(
                            "Cron {}: left unchanged, because this node cannot parse its new schedule: {}",
                            Names.printable(cron.name()),
                            Names.printable(String.valueOf(e.getMessage())));
                }
            }
            if (!put.isEmpty()) {
                store.put(put);
            }
        }

        private static Map<String, CronRow> byName(List<CronRow> rows) {
            return rows.stream()
                    .collect(Collectors.toMap(row -> row.definition().name(), Function.identity()));
        }

        private ScheduledDefinition replace(CronRow row, Definition cron, Instant now) {
            if (row.hasSameSlotsAs(cron) && row.next() != null) {
                return new ScheduledDefinition(cron, row.next());
            }
            // First: an exception must leave the slots of the old schedule alone.
            ScheduledDefinition scheduled = scheduled(cron, now);
            decided.addAll(replacement.decideDueSlots(row, now, term));
            return scheduled;
        }

        void log() {
            if (!added.isEmpty() || !changed.isEmpty() || removedRows > 0) {
                String changes = Stream.of(
                                change("added", added),
                                change("changed", changed),
                                change("removed", removedRows > 0 ? removed : List.of()))
                        .filter(change -> !change.isEmpty())
                        .collect(Collectors.joining(", "));
                log.info("Crons: {}", changes);
            }
        }

        private static String change(String verb, Collection<String> crons) {
            return crons.isEmpty() ? "" : verb + " " + Names.printable(crons);
        }
    }

    private ScheduledDefinition scheduled(Definition cron, Instant after) {
        return new ScheduledDefinition(cron, schedules.of(cron).next(after));
    }

    private void warnOfJitter(Definition cron, Instant now) {
        Instant next = schedules.of(cron).next(now);
        Instant after = next == null ? null : schedules.of(cron).next(next);
        if (cron.overlap() == Overlap.SKIP
                && after != null
                && Duration.between(next, after).toMillis() <= cron.jitterMillis()) {
            log.warn(
                    "Cron {}: jitter of {} ms reaches the next slot, which is skipped while the delayed run waits to start",
                    Names.printable(cron.name()),
                    cron.jitterMillis());
        }
    }

    /** Returns declared crons that no live build has declared for a while. */
    private List<String> orphans(Map<String, CronRow> rows, List<Definition> wanted) {
        Set<String> orphans = rows.values().stream()
                .filter(row -> row.declared() && !row.paused())
                .map(row -> row.definition().name())
                .collect(Collectors.toSet());
        wanted.forEach(cron -> orphans.remove(cron.name()));
        long now = time.nanos();
        orphanedSince.keySet().retainAll(orphans);
        orphans.forEach(name -> orphanedSince.putIfAbsent(name, now));
        return orphanedSince.entrySet().stream()
                .filter(orphan -> now - orphan.getValue() > removeOrphansAfter.toNanos())
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
    }
}

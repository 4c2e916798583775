// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.leader.Candidate;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.leader.Leadership;
import java.util.HashSet;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Finds runs that cannot continue. The leader of the scheduler role blocks runs whose version no live node has, and repairs runs
 * that nothing would wake. Every node checks by itself whether stranded runs make it unready.
 */
final class WorkflowWatch {

    private static final Logger log = GuardedLogger.of(WorkflowWatch.class);
    private static final int BLOCKED_PER_PASS = 5_000;
    private static final int REPAIRED_PER_PASS = 1_000;
    /** How many passes go by until a version whose runs are all blocked is checked again. */
    private static final int PASSES_BETWEEN_RECHECKS = 15;

    private final Candidate candidate;
    private final JobEngine engine;
    private final WorkflowKeeping keeping;
    private final LeaderStore leaders;
    private final WorkflowSettings.StrandedCheck settings;
    private final Supplier<Set<WorkflowVersion>> installed;
    private final Set<WorkflowVersion> fullyBlocked = new HashSet<>();
    private Set<WorkflowVersion> missingInLastPass = Set.of();
    private int passes;
    private @Nullable UUID lastRepaired;
    private volatile Set<WorkflowVersion> stranded = Set.of();
    /** Versions without code here that had runs in flight when the node began, and still have; null before the first check. */
    private @Nullable Set<WorkflowVersion> lackingSinceStart;

    /** @param installed the versions that this node has */
    WorkflowWatch(
            Candidate candidate,
            Node.Resources resources,
            JobEngine engine,
            WorkflowKeeping keeping,
            WorkflowSettings.StrandedCheck settings,
            Supplier<Set<WorkflowVersion>> installed) {
        this.candidate = candidate;
        this.engine = engine;
        this.keeping = keeping;
        this.leaders = new LeaderStore(resources.schema(), resources.control());
        this.settings = settings;
        this.installed = installed;
    }

    // The leader --------------------------------------------------------------------------------------------

    /** One pass of the leader of the scheduler role; does nothing on other nodes. */
    void blockAndRepair() {
        OptionalLong term = candidate.elector().term(Leadership.SCHEDULER);
        UUID self = candidate.id();
        if (term.isEmpty() || self == null) {
            missingInLastPass = Set.of();
            lastRepaired = null;
            return;
        }
        Set<WorkflowVersion> live = keeping.versionsOfLiveWorkers().keySet();
        block(self, term.getAsLong(), live);
        unblock(self, term.getAsLong(), live);
        repair(self, term.getAsLong());
    }

    private void block(UUID self, long term, Set<WorkflowVersion> live) {
        Set<WorkflowVersion> missing = new HashSet<>(keeping.versionsInFlight());
        missing.removeAll(live);
        for (WorkflowVersion version : missing) {
            // Missing in two passes: a node that restarts is away for a moment.
            boolean skip = fullyBlocked.contains(version) && passes % PASSES_BETWEEN_RECHECKS != 0;
            if (missingInLastPass.contains(version) && !skip) {
                int blocked = fenced(self, term, () -> keeping.block(version, BLOCKED_PER_PASS));
                if (blocked > 0) {
                    log.warn(
                            "Workflow {}: blocked {} runs, no live node has this version. They continue when one has.",
                            Names.printable(version.label()),
                            blocked);
                } else {
                    // The statement reads all blocked runs to find that none is left to block.
                    fullyBlocked.add(version);
                }
            }
        }
        missingInLastPass = missing;
        passes++;
        fullyBlocked.retainAll(missing);
    }

    private void unblock(UUID self, long term, Set<WorkflowVersion> live) {
        for (WorkflowVersion version : keeping.blockedVersions()) {
            if (live.contains(version)) {
                int unblocked = fenced(self, term, () -> keeping.unblock(version, BLOCKED_PER_PASS));
                log.info(
                        "Workflow {}: unblocked {} runs, a live node has this version",
                        Names.printable(version.label()),
                        unblocked);
            }
        }
    }

    private void repair(UUID self, long term) {
        UUID after = lastRepaired;
        int repaired = fenced(self, term, () -> {
            WorkflowKeeping.Repairs repairs = keeping.repairNext(after, REPAIRED_PER_PASS);
            lastRepaired = repairs.last();
            return repairs.repaired();
        });
        if (repaired > 0) {
            log.warn(
                    "Repaired {} runs of workflows that nothing would have woken: their job was deleted or had ended, or a signal"
                            + " was inserted by hand. They continue, or have failed with their job.",
                    repaired);
            engine.announce(JobPriority.NORMAL);
        }
    }

    private interface Change {
        int make();
    }

    /** Makes a change that is rolled back if the term is over; returns how many rows it changed. */
    private int fenced(UUID self, long term, Change change) {
        Integer changed = keeping.transaction().execute(status -> {
            int made = change.make();
            if (made > 0 && !candidate.fences().take(leaders, Leadership.SCHEDULER, self, term)) {
                status.setRollbackOnly();
                return 0;
            }
            return made;
        });
        return changed == null ? 0 : changed;
    }

    // Every node --------------------------------------------------------------------------------------------

    /** Returns whether runs in flight make this node unready: it, or every live node, lacks their version. */
    boolean isStranded() {
        return !stranded.isEmpty();
    }

    /** Starts with the versions that are in flight now: those without code here make the node unready. */
    synchronized void begin() {
        lackingSinceStart = null;
        checkStranded();
    }

    /**
     * Finds versions that have runs in flight, but no code. A version that was in flight when this node began counts until it is
     * drained: a deployment must not replace the nodes that have it. A version that appears later belongs to a newer release:
     * it counts if no live node has it.
     */
    synchronized void checkStranded() {
        boolean clusterWide = settings.clusterWide();
        Set<WorkflowVersion> lacking = new HashSet<>();
        // A node that is no worker executes no runs.
        if (clusterWide || engine.isWorking()) {
            lacking.addAll(keeping.versionsInFlight());
            lacking.removeAll(installed.get());
        }
        Set<WorkflowVersion> sinceStart =
                clusterWide ? new HashSet<>() : new HashSet<>(lackingSinceStart == null ? lacking : lackingSinceStart);
        sinceStart.retainAll(lacking);
        lackingSinceStart = Set.copyOf(sinceStart);
        lacking.removeAll(sinceStart);
        if (!lacking.isEmpty()) {
            lacking.removeAll(keeping.versionsOfLiveWorkers().keySet());
        }
        lacking.addAll(sinceStart);
        Set<WorkflowVersion> former = stranded;
        stranded = lacking;
        lacking.stream().filter(version -> !former.contains(version)).forEach(this::warn);
        if (lacking.isEmpty() && !former.isEmpty()) {
            log.info("No runs of workflows are stranded any more: they do not keep this node unready");
        }
    }

    private void warn(WorkflowVersion version) {
        String workflow = Names.printable(version.workflow());
        String number = Names.printable(version.version());
        log.warn(
                "{} runs of workflow '{}' version '{}' are in flight, but {} that version: this node is not ready. Deploy"
                        + " the version again until they have ended, or retire them: UPDATE forge_workflow_runs SET status ="
                        + " 'retired_unresumable', resolution_reason = '...' WHERE workflow_name = '{}' AND workflow_version ="
                        + " '{}' AND status NOT IN ('completed','compensated','failed','retired_unresumable','cancelled_by_operator');",
                keeping.countInFlight(version),
                workflow,
                number,
                lackingSinceStart != null && lackingSinceStart.contains(version)
                        ? "this node lacks"
                        : "no live node has",
                // Quoted for the statement, which an operator may copy.
                workflow.replace("'", "''"),
                number.replace("'", "''"));
    }
}

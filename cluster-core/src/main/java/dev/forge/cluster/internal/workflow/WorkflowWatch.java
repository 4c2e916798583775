package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
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
 * Finds runs that cannot go on. If it leads the scheduler role, the node says so of those whose version no live node has, and
 * gives runs a job whose job is gone; every node finds out by itself whether there are runs that make it unready.
 */
final class WorkflowWatch {

    private static final Logger log = GuardedLogger.of(WorkflowWatch.class);
    private static final int BATCH = 5_000;
    /** How many runs a look goes through, ended or not. */
    private static final int SLICE = 1_000;

    private static final int RARELY = 15;

    private final Node node;
    private final JobEngine engine;
    private final WorkflowKeeping keeping;
    private final LeaderStore leaders;
    private final WorkflowEngine.Stranded settings;
    private final Supplier<Set<Version>> own;
    private final Set<Version> blockedBefore = new HashSet<>();
    private Set<Version> missing = Set.of();
    private int looks;
    private @Nullable UUID looked;
    private volatile Set<Version> stranded = Set.of();
    /** Versions without code here that had runs in flight when the node began, as far as they still have; null: not looked yet. */
    private @Nullable Set<Version> found;

    /** @param own the versions that this node has */
    WorkflowWatch(
            Node node,
            JobEngine engine,
            WorkflowKeeping keeping,
            WorkflowEngine.Stranded settings,
            Supplier<Set<Version>> own) {
        this.node = node;
        this.engine = engine;
        this.keeping = keeping;
        this.leaders =
                new LeaderStore(node.resources().schema(), node.resources().control());
        this.settings = settings;
        this.own = own;
    }

    // The leader's ------------------------------------------------------------------------------------------

    /** The leader's look at runs that cannot go on. */
    void look() {
        OptionalLong term = node.elector().term(Leadership.SCHEDULER);
        UUID self = node.id();
        if (term.isEmpty() || self == null) {
            missing = Set.of();
            looked = null;
            return;
        }
        Set<Version> advertised = keeping.advertised().keySet();
        Set<Version> absent = new HashSet<>(keeping.inFlight());
        absent.removeAll(advertised);
        for (Version version : absent) {
            // Seen twice: a node that restarts is away for a moment.
            boolean rarely = blockedBefore.contains(version) && looks % RARELY != 0;
            if (missing.contains(version) && !rarely) {
                int blocked = fenced(self, term.getAsLong(), () -> keeping.block(version, BATCH));
                if (blocked > 0) {
                    log.warn(
                            "workflow {}: {} runs are blocked, no live node has this version",
                            Names.printable(version.label()),
                            blocked);
                } else {
                    // Finding that there is nothing to do means passing all that are blocked.
                    blockedBefore.add(version);
                }
            }
        }
        missing = absent;
        looks++;
        blockedBefore.retainAll(absent);
        for (Version version : keeping.blocked()) {
            if (advertised.contains(version)) {
                int freed = fenced(self, term.getAsLong(), () -> keeping.unblock(version, BATCH));
                log.info(
                        "workflow {}: {} runs go on, a live node has this version",
                        Names.printable(version.label()),
                        freed);
            }
        }
        UUID from = looked;
        int revived = fenced(self, term.getAsLong(), () -> {
            WorkflowKeeping.Slice slice = keeping.revive(from, SLICE);
            looked = slice.next();
            return slice.revived();
        });
        if (revived > 0) {
            log.warn(
                    "{} runs of workflows were waiting for nothing: their job was gone or had ended, or a signal had been inserted by hand; they go on, or have failed with their job",
                    revived);
            engine.announce(JobPriority.NORMAL);
        }
    }

    private interface Change {
        int make();
    }

    /** Makes a change that is undone if the term is over; answers how many rows it changed. */
    private int fenced(UUID self, long term, Change change) {
        Integer changed = keeping.transaction().execute(status -> {
            int made = change.make();
            if (made > 0 && !node.fences().take(leaders, Leadership.SCHEDULER, self, term)) {
                status.setRollbackOnly();
                return 0;
            }
            return made;
        });
        return changed == null ? 0 : changed;
    }

    // Every node's ------------------------------------------------------------------------------------------

    /** Whether there are runs in flight that this node, or all of them, cannot go on with: it is not ready then. */
    boolean isStranded() {
        return !stranded.isEmpty();
    }

    /** The node begins: what is in flight by now makes it unready if it has no code for it. */
    synchronized void begin() {
        found = null;
        lookForStranded();
    }

    /**
     * One look for versions that have runs in flight, but no code. A version that this node found in flight when it began
     * counts until it is drained: a deployment must not go on over its runs. One that appears later belongs to a newer
     * release: it counts if no live node has it.
     */
    synchronized void lookForStranded() {
        boolean clusterWide = settings.clusterWide();
        Set<Version> lacking = new HashSet<>();
        // A node that is no worker runs none of them, whatever its code.
        if (clusterWide || engine.isWorking()) {
            lacking.addAll(keeping.inFlight());
            lacking.removeAll(own.get());
        }
        Set<Version> counting = clusterWide ? new HashSet<>() : new HashSet<>(found == null ? lacking : found);
        counting.retainAll(lacking);
        found = Set.copyOf(counting);
        lacking.removeAll(counting);
        if (!lacking.isEmpty()) {
            lacking.removeAll(keeping.advertised().keySet());
        }
        lacking.addAll(counting);
        Set<Version> former = stranded;
        stranded = lacking;
        lacking.stream().filter(version -> !former.contains(version)).forEach(this::warn);
        if (lacking.isEmpty() && !former.isEmpty()) {
            log.info("No runs of workflows are stranded any more: this node is ready as far as they are concerned");
        }
    }

    private void warn(Version version) {
        String workflow = Names.printable(version.workflow());
        String number = Names.printable(version.version());
        log.warn(
                "{} runs of workflow '{}' version '{}' are in flight, but {} has that version: this node is not ready. Deploy"
                        + " the version again until they have ended, or give them up: UPDATE forge_workflow_runs SET status ="
                        + " 'retired_unresumable', resolution_reason = '...' WHERE workflow_name = '{}' AND workflow_version ="
                        + " '{}' AND status NOT IN ('completed','compensated','failed','retired_unresumable','cancelled_by_operator');",
                keeping.countInFlight(version),
                workflow,
                number,
                found != null && found.contains(version) ? "not this node" : "no live node",
                // Within the quotes of a statement that an operator may copy.
                workflow.replace("'", "''"),
                number.replace("'", "''"));
    }
}

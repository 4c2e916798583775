// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.cron.CronSlotStore.DecidedSlot;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.handler.GuardedMonitor;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.purge.PurgeBatch;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/**
 * Publishes the crons that this node declares and, while the node leads the scheduler role, fires all crons of the cluster.
 *
 * <p><b>Firing</b> ({@link CronFiring}). Each batch of due crons is one transaction: it records the decision about each slot
 * in the ledger, enqueues the runs as jobs, moves the crons on, and takes the fence of the leader's term last. So each slot
 * is decided once, even if the leader fails or is replaced at any point.
 *
 * <p><b>Definitions</b> ({@link CronReconciler}). Every node names a digest of all crons that its build declares. The leader
 * brings the table in line with the builds of live nodes; where builds differ about a cron, the newest one counts. A cron
 * leaves the table when no live build declares it.
 */
public final class CronEngine implements NodeComponent {

    /** The notification that crons were declared, created or changed. */
    static final String CRONS_CHANGED = "crons";

    /** The longest jitter that a cron may have. */
    public static final Duration LONGEST_JITTER = CronDefinition.LONGEST_JITTER;

    private static final Logger log = GuardedLogger.of(CronEngine.class);
    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);
    /** How often a node checks whether it has become the leader, which needs no query. */
    private static final Duration STANDBY_PAUSE = Duration.ofMillis(200);
    /** The pause while due slots cannot be decided yet. */
    private static final Duration UNDECIDED_PAUSE = Duration.ofMillis(250);
    /** Sets and memories are small, and a build that returns after months must be recognised as the older one. */
    private static final Duration SET_RETENTION = Duration.ofDays(365);

    private static final int PURGE_BATCH = 5_000;

    private final Node node;
    private final JobEngine jobs;
    private final CronDeclarations declarations;
    private final Settings settings;
    private final JobMonitor monitor;
    private final CronStore store;
    private final CronSetStore sets;
    private final CronSlotStore slots;
    private final LeaderStore leaders;
    private final CronSchedules schedules = new CronSchedules();
    private final CronFiring firing;
    private final CronReconciler reconciler;
    private final PurgeBatch purge;
    private volatile boolean firesSlots = true;

    private final NodeLoop loop = NodeLoop.of("fire-crons", this::pause, this::pass);

    // Confined to the thread of the loop.
    private Duration pause = Duration.ZERO;
    private boolean declared;
    private long leadingTerm;
    private boolean undisputed;

    private volatile boolean changed;

    /**
     * Settings of the engine.
     *
     * @param threshold slots that are later than this are misfires
     * @param retention how long the ledger is kept
     * @param defaults values for options that a cron leaves open
     */
    public record Settings(Duration threshold, Duration retention, Defaults defaults) {}

    /** Values for options that a cron leaves open. */
    public record Defaults(String zone, Misfire misfire, int catchUpLimit) {}

    public CronEngine(Node node, JobEngine jobs, CronDeclarations declarations, JobMonitor monitor, Settings settings) {
        this.node = node;
        this.jobs = jobs;
        this.declarations = declarations;
        this.settings = settings;
        this.monitor = GuardedMonitor.of(monitor);
        Node.Resources resources = node.resources();
        this.store = new CronStore(resources.schema(), resources.control());
        this.sets = new CronSetStore(resources.schema(), resources.control());
        this.slots = new CronSlotStore(resources.schema(), resources.control());
        this.leaders = new LeaderStore(resources.schema(), resources.control());
        this.purge = new PurgeBatch("rows of the ledger", PURGE_BATCH, node::nanos);
        var rules = new CronSlotBatch.Rules(schedules, settings, new JobIds(node.clock()), this::capability);
        this.firing = new CronFiring(node, resources, slots, rules, batch -> reportDecided(batch.decided()));
        this.reconciler = new CronReconciler(
                node,
                resources,
                jobs,
                declarations,
                schedules,
                new ScheduleReplacement(resources.schema(), resources.control(), rules));
    }

    // Component of the node ---------------------------------------------------------------------------------

    @Override
    public Map<String, String> facts() {
        String digest = digest();
        return digest == null ? Map.of() : Map.of("crons", digest);
    }

    private @Nullable String digest() {
        if (declarations.all().isEmpty() || node.settings().presence().mode() == NodeMode.OBSERVER) {
            return null;
        }
        try {
            byte[] all = declarations.all().values().toString().getBytes(StandardCharsets.UTF_8);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(all), 0, 8);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(loop, NodeLoop.cleanUp("clean-up-crons", this::cleanUp));
    }

    @Override
    public void begin() {
        declared = false;
        loop.wake();
    }

    @Override
    public void heard(String news) {
        if (news.equals(CRONS_CHANGED)) {
            changed = true;
            loop.wake();
        }
    }

    @Override
    public List<String> summary() {
        return declarations.all().isEmpty() ? List.of() : List.of("Crons: " + names());
    }

    /** Decides due slots without waiting for the next tick. */
    void fireSoon() {
        loop.wake();
    }

    /** Tells all nodes that crons were created or changed; called after the commit. */
    void announce() {
        changed = true;
        loop.wake();
        jobs.notifyNodes(CRONS_CHANGED);
    }

    // Loop --------------------------------------------------------------------------------------------------

    private Duration pause() {
        return pause;
    }

    /** Runs one pass: publishes declarations and, on the leader, reconciles definitions and fires due crons. */
    void pass() {
        pause = STANDBY_PAUSE;
        declare();
        OptionalLong current = node.elector().term(Leadership.SCHEDULER);
        UUID self = node.id();
        if (current.isEmpty() || self == null) {
            leadingTerm = 0;
            return;
        }
        if (current.getAsLong() != leadingTerm) {
            leadingTerm = current.getAsLong();
            undisputed = false;
            reconciler.reset();
            firing.reset();
            schedules.clear();
        }
        if (!undisputed && node.elector().isUndisputed(Leadership.SCHEDULER)) {
            undisputed = true;
            // Wakes this node's own worker too: from now on it may run what is reserved for the leader.
            jobs.announce(JobPriority.NORMAL);
        }
        var term = new SchedulerTerm(node.fences(), store, leaders, self, leadingTerm);
        if (changed || reconciler.isDue()) {
            if (changed) {
                changed = false;
                reconciler.markOutdated();
            }
            reportDecided(reconciler.pass(term));
        }
        if (!firesSlots) {
            pause = LONGEST_PAUSE;
            return;
        }
        firing.refreshMissingHandlers();
        Duration next = firing.untilNext().orElse(LONGEST_PAUSE);
        if (next.isNegative() || next.isZero()) {
            next = firing.fire(term) ? firing.untilNext().orElse(LONGEST_PAUSE) : Duration.ZERO;
            if (next.isNegative() || next.isZero()) {
                next = UNDECIDED_PAUSE;
            }
        }
        // One millisecond more, so that the slot is due by the database's clock too.
        Duration until = next.plusMillis(1);
        Duration longest = undisputed ? LONGEST_PAUSE : STANDBY_PAUSE;
        pause = until.compareTo(longest) < 0 ? until : longest;
    }

    /** Sets whether slots fire when their time has come. Definitions are kept up to date anyway. For tests. */
    public void fireSlots(boolean fire) {
        firesSlots = fire;
    }

    /** Returns whether slots fire when their time has come. */
    public boolean firesSlots() {
        return firesSlots;
    }

    private void declare() {
        String digest = digest();
        if (!declared && digest != null) {
            sets.declare(digest, List.copyOf(declarations.all().values()));
            jobs.notifyNodes(CRONS_CHANGED);
            changed = true;
        }
        declared = true;
    }

    /** Returns the capability that routes a run to this leader if it has the handler, else to a node that has it. */
    private @Nullable String capability(Definition definition, HandlerAvailability availability) {
        if (definition.target() == CronTarget.ANY_WORKER) {
            return definition.capability();
        }
        if (declarations.handlers().named(definition.handler()) != null) {
            return LeaderCapabilities.LEADER;
        }
        return availability.onSchedulers() ? LeaderCapabilities.SCHEDULER : definition.capability();
    }

    /** Counts decisions, warns about missed slots and wakes workers; called after the commit. */
    void reportDecided(List<DecidedSlot> decided) {
        var missed = new TreeMap<String, Integer>();
        for (DecidedSlot slot : decided) {
            monitor.fired(slot.cron(), slot.outcome());
            if (slot.outcome() == Outcome.MISSED) {
                missed.merge(slot.cron(), 1, Integer::sum);
            }
        }
        Level level = node.isTimeMoved() ? Level.DEBUG : Level.WARN;
        missed.forEach((cron, count) -> log.atLevel(level)
                .log(
                        "Cron {}: {} missed. Table forge_cron_runs has the reasons.",
                        Names.printable(cron),
                        count == 1 ? "1 slot" : count + " slots"));
        if (decided.stream().anyMatch(slot -> slot.job() != null)) {
            jobs.announce(JobPriority.NORMAL);
        }
    }

    /** Deletes ledger rows and sets that are older than their retention. */
    public void cleanUp() {
        Loop.each(
                () -> sets.keepSets(sets.liveSets().digests(), SET_RETENTION),
                () -> purge.deleteAll(limit -> slots.purge(settings.retention, limit)));
    }

    // For others --------------------------------------------------------------------------------------------

    Settings settings() {
        return settings;
    }

    /** Returns the cache of parsed schedules. */
    CronSchedules schedules() {
        return schedules;
    }

    /** Returns the names of the crons that this node declares. */
    public Set<String> names() {
        return declarations.all().keySet();
    }

    /**
     * Checks an expression and a zone; returns the expression in the form in which it is stored.
     *
     * @throws IllegalArgumentException if one of them is invalid, or the expression never fires
     */
    public static String requireSchedule(String expression, String zone) {
        CronSchedule.of(expression, zone);
        return CronSchedule.normal(expression);
    }

    // Shorter delays for tests.

    void removeOrphansAfter(Duration delay) {
        reconciler.removeOrphansAfter(delay);
    }

    void warnAfter(Duration delay) {
        reconciler.warnAfter(delay);
    }

    void retryFailedAfter(Duration delay) {
        firing.retryFailedAfter(delay);
    }
}

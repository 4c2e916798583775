// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronJobStore.UnfinishedRun;
import dev.forge.cluster.internal.cron.CronPlan.Decision;
import dev.forge.cluster.internal.cron.CronSlotStore.CronAdvance;
import dev.forge.cluster.internal.cron.CronSlotStore.DecidedSlot;
import dev.forge.cluster.internal.cron.CronSlotStore.DueCron;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronSlotStore.PagePosition;
import dev.forge.cluster.internal.cron.CronSlotStore.RequiredHandler;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Names;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Decides due slots inside of one transaction: plans each cron, cancels runs that later slots replace, records the decisions
 * in the ledger, enqueues the runs and moves the crons on. Used once; changes no state outside of the database.
 */
final class CronSlotBatch {

    /** The error of a run that was cancelled because a later slot runs instead. */
    static final String REPLACED = "replaced by the run of a later slot";

    /** The largest number of crons in one batch. */
    static final int MAX_CRONS = 500;
    /** The largest number of ledger rows that one statement inserts. */
    static final int MAX_SLOTS = 10_000;

    private static final Logger log = GuardedLogger.of(CronSlotBatch.class);
    /**
     * The largest total size of the payloads in one batch. One statement enqueues them, and must finish before its
     * connection times out. A batch that takes longer would fail again and again, and no cron would fire.
     */
    private static final long MAX_PAYLOAD_BYTES = 4_000_000;

    /** Returns the capability that a node needs to run a slot; null if any worker may run it. */
    @FunctionalInterface
    interface RunRouting {
        @Nullable
        String capability(Definition definition, HandlerAvailability availability);
    }

    /** Everything that decisions depend on besides the rows. */
    record Rules(CronSchedules schedules, CronEngine.Settings settings, JobIds ids, RunRouting routing) {}

    private final CronSlotStore slotStore;
    private final CronJobStore jobStore;
    private final JobCancelStore cancels;
    private final Rules rules;
    private final @Nullable Long term;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final Map<String, HandlerAvailability> handlers;
    private final List<DecidedSlot> slots = new ArrayList<>();
    private final List<CronAdvance> advances = new ArrayList<>();
    private final Set<RequiredHandler> missingHandlers = new HashSet<>();
    private List<DecidedSlot> decided = List.of();
    private @Nullable PagePosition next;

    /**
     * @param handlers the handlers of live nodes
     * @param term the term of the leader; null if this node decides without being the leader
     */
    CronSlotBatch(
            Schema schema,
            DataSource source,
            Rules rules,
            Map<String, HandlerAvailability> handlers,
            @Nullable Long term) {
        this.slotStore = new CronSlotStore(schema, source);
        this.jobStore = new CronJobStore(schema, source);
        this.cancels = new JobCancelStore(schema, source);
        this.rules = rules;
        this.handlers = handlers;
        this.term = term;
    }

    /** Decides the due slots of crons that the current transaction has locked. */
    void decide(List<DueCron> due) {
        Map<UUID, UnfinishedRun> unfinished = unfinishedRuns(due);
        var plans = new ArrayList<PlannedCron>();
        int size = 0;
        long bytes = 0;
        boolean full = false;
        for (DueCron cron : due) {
            PlannedCron planned = plan(cron, previousRun(cron, unfinished));
            if (planned != null) {
                if (bytes > 0 && bytes + planned.payloadBytes() > MAX_PAYLOAD_BYTES) {
                    // The cron is the first one of the next batch.
                    full = true;
                    break;
                }
                planned = planned.withPayloadBytes(MAX_PAYLOAD_BYTES);
                plans.add(planned);
                size += planned.plan.decisions().size();
                bytes += planned.payloadBytes();
            }
            next = new PagePosition(cron.next(), cron.definition().name());
            if (size >= MAX_SLOTS) {
                full = true;
                break;
            }
        }
        if (due.size() < MAX_CRONS && !full) {
            next = null;
        }
        cancelReplacedRuns(plans).forEach(this::add);
        write();
    }

    /** Returns the slots that this batch was the first to decide. */
    List<DecidedSlot> decided() {
        return decided;
    }

    /** Returns the crons that were moved on. */
    List<CronAdvance> advances() {
        return advances;
    }

    /** Returns the new progress of a cron; empty if nothing could be decided. */
    Optional<CronAdvance> advanceOf(String cron) {
        return advances.stream().filter(advance -> advance.name().equals(cron)).findFirst();
    }

    /** Returns handlers that due slots wait for because no live node has them. */
    Set<RequiredHandler> missingHandlers() {
        return missingHandlers;
    }

    /** Returns the position after which the next batch starts; null if this was the last one. */
    @Nullable
    PagePosition next() {
        return next;
    }

    /** Describes an unfinished run for the ledger. */
    static CronPlan.PreviousRun describe(UnfinishedRun run) {
        String description = "job %s%s %s"
                .formatted(
                        run.job(),
                        run.slot() == null ? "" : " of slot " + Instant.parse(run.slot()),
                        switch (run.status()) {
                            case RUNNING -> "has been running since " + seconds(run.since());
                            case PENDING ->
                                (run.isRetry() ? "retries at " : "has been pending since ") + seconds(run.since());
                            default -> "is about to run";
                        });
        return new CronPlan.PreviousRun(description, run.isRetry());
    }

    private static Instant seconds(Instant time) {
        return time.truncatedTo(ChronoUnit.SECONDS);
    }

    // Only crons that may not overlap depend on their previous run.
    private Map<UUID, UnfinishedRun> unfinishedRuns(List<DueCron> due) {
        return jobStore.unfinishedRuns(due.stream()
                .filter(cron -> cron.definition().overlap() == Overlap.SKIP)
                .map(DueCron::lastJob)
                .filter(Objects::nonNull)
                .toList());
    }

    private static CronPlan.@Nullable PreviousRun previousRun(DueCron cron, Map<UUID, UnfinishedRun> unfinished) {
        UnfinishedRun run = cron.lastJob() == null ? null : unfinished.get(cron.lastJob());
        return run == null ? null : describe(run);
    }

    private @Nullable PlannedCron plan(DueCron cron, CronPlan.@Nullable PreviousRun previous) {
        Definition definition = cron.definition();
        HandlerAvailability availability = handlers.get(definition.handler());
        if (!cron.paused() && (availability == null || !availability.mayRun(definition.target()))) {
            // The slots wait until a node joins that may run the handler; by then they may be misfires.
            missingHandlers.add(new RequiredHandler(definition.target(), definition.handler()));
            return null;
        }
        CronSchedule schedule;
        try {
            schedule = rules.schedules.of(definition);
        } catch (IllegalArgumentException e) {
            log.error(
                    "Cron {}: schedule cannot be parsed, the cron does not fire until it is changed: {}",
                    Names.printable(definition.name()),
                    Names.printable(String.valueOf(e.getMessage())));
            advances.add(new CronAdvance(definition.name(), null, null, null, e.getMessage()));
            return null;
        }
        CronPlan plan = CronPlan.of(
                schedule,
                // The table may hold any number.
                new CronPlan.Policy(
                        definition.misfire(),
                        Math.min(definition.catchUpLimit(), CronDefinition.LARGEST_CATCH_UP_LIMIT),
                        definition.overlap()),
                new CronPlan.Situation(
                        cron.now(),
                        cron.next(),
                        cron.paused(),
                        previous,
                        rules.settings.threshold(),
                        cron.now().minus(rules.settings.retention())));
        return new PlannedCron(cron, availability, plan);
    }

    /** Cancels runs that later slots replace. A run that a node has claimed meanwhile stays, and its cron is planned again. */
    private List<PlannedCron> cancelReplacedRuns(List<PlannedCron> plans) {
        List<UUID> replaced = plans.stream()
                .filter(planned -> planned.plan.replaces())
                .map(planned -> Objects.requireNonNull(planned.cron.lastJob()))
                .toList();
        if (replaced.isEmpty()) {
            return plans;
        }
        Set<UUID> cancelled = cancels.cancelRetries(replaced, REPLACED);
        Map<UUID, UnfinishedRun> claimed = jobStore.unfinishedRuns(
                replaced.stream().filter(job -> !cancelled.contains(job)).toList());
        return plans.stream()
                .map(planned -> {
                    UnfinishedRun run = planned.plan.replaces() ? claimed.get(planned.cron.lastJob()) : null;
                    return run == null
                            ? planned
                            : plan(
                                    planned.cron,
                                    new CronPlan.PreviousRun(describe(run).description(), false));
                })
                .filter(Objects::nonNull)
                .toList();
    }

    private void add(PlannedCron planned) {
        DueCron cron = planned.cron;
        Definition definition = cron.definition();
        Instant previous = cron.lastSlot();
        Instant lastSlot = null;
        UUID lastJob = null;
        for (Decision decision : planned.plan.decisions()) {
            UUID job = decision.outcome() == Outcome.RAN ? rules.ids.next() : null;
            slots.add(new DecidedSlot(
                    definition.name(),
                    decision.slot(),
                    decision.outcome(),
                    decision.reason(),
                    job,
                    job == null
                            ? null
                            : rules.routing.capability(definition, Objects.requireNonNull(planned.availability)),
                    job == null ? 0 : jitter(definition),
                    previous));
            if (job != null) {
                previous = decision.slot();
                lastSlot = decision.slot();
                lastJob = job;
            }
        }
        if (!planned.plan.decisions().isEmpty() || !cron.next().equals(planned.plan.next())) {
            advances.add(new CronAdvance(definition.name(), planned.plan.next(), lastSlot, lastJob, null));
        }
    }

    private long jitter(Definition definition) {
        // The table may hold any number.
        long max = Math.min(definition.jitterMillis(), CronDefinition.LONGEST_JITTER.toMillis());
        return max == 0 ? 0 : random.nextLong(max + 1);
    }

    private void write() {
        if (!slots.isEmpty()) {
            decided = slotStore.record(slots, term);
            List<DecidedSlot> runs =
                    decided.stream().filter(slot -> slot.job() != null).toList();
            if (!runs.isEmpty()) {
                slotStore.enqueue(runs, term);
            }
        }
        if (!advances.isEmpty()) {
            slotStore.advance(advances);
        }
    }

    /** A cron and the plan for its due slots. */
    private record PlannedCron(DueCron cron, @Nullable HandlerAvailability availability, CronPlan plan) {

        long payloadBytes() {
            return plan.runs() * cron.payloadBytes();
        }

        /** Returns the same plan with fewer runs, so that their payloads fit; at least one run stays. */
        PlannedCron withPayloadBytes(long max) {
            return new PlannedCron(cron, availability, plan.withRuns(max / Math.max(1, cron.payloadBytes())));
        }
    }
}

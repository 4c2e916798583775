// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.Page;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.cron.CronDefinitionChecks.StoredCrons;
import dev.forge.cluster.internal.cron.CronJobStore.UnfinishedRun;
import dev.forge.cluster.internal.cron.CronSlotStore.DecidedSlot;
import dev.forge.cluster.internal.cron.CronSlotStore.DueCron;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronStore.CronRow;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.ScheduledDefinition;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.enqueue.JobIds;
import dev.forge.cluster.internal.job.enqueue.ReservedNames;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.job.row.JobCancelStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobPriority;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** {@link Crons} on the tables of the schema. All changes join the caller's transaction. */
public final class DefaultCrons implements Crons {

    /** The longest list of slots. */
    private static final int MOST_LISTED = 1_000;

    /** The longest list of slots of each of several crons. */
    private static final int MOST_LATEST = 20;

    private final Node node;
    private final JobEngine jobs;
    private final CronEngine engine;
    private final CronDeclarations declarations;
    private final JobHandlers handlers;
    private final CallerTransaction caller;
    private final CronStore store;
    private final CronSlotStore slots;
    private final CronJobStore runs;
    private final JobCancelStore cancels;
    private final CronReports reports;
    private final CronDefinitionChecks checks;
    private final ScheduleReplacement replacement;
    private final JobIds ids;
    private final JobMonitor monitor;
    private final AuditedChanges audited;

    /** The engines that crons are announced to. */
    public record Engines(JobEngine jobs, CronEngine crons) {}

    public DefaultCrons(
            Node node,
            Engines engines,
            CronDeclarations declarations,
            DataSource application,
            JobEngine.Dependencies tools) {
        this.node = node;
        this.jobs = engines.jobs;
        this.engine = engines.crons;
        this.declarations = declarations;
        this.handlers = declarations.handlers();
        this.caller = new CallerTransaction(application);
        Schema schema = node.resources().schema();
        this.store = new CronStore(schema, application);
        this.slots = new CronSlotStore(schema, application);
        this.runs = new CronJobStore(schema, application);
        this.cancels = new JobCancelStore(schema, application);
        this.reports = new CronReports(schema, application);
        this.checks = new CronDefinitionChecks(
                declarations,
                new ReservedNames(node, handlers),
                engine.settings().defaults(),
                new PayloadJson(tools.codec(), tools.maxBytes()),
                new StoredCrons(slots, reports));
        this.ids = new JobIds(node.clock());
        this.replacement = new ScheduleReplacement(
                schema,
                application,
                new CronSlotBatch.Rules(engine.schedules(), engine.settings(), ids, DefaultCrons::capability));
        this.monitor = tools.monitor();
        this.audited = node.resources().audit().on(application);
    }

    @Override
    public void create(CronDefinition definition) {
        Arguments.required("Crons.create", "definition", definition);
        requireMayChange("Crons.create");
        handlers.requireComplete("Crons.create");
        Definition created = checks.check(definition);
        String payload = checks.payload(definition);
        if (!audited.record(
                new Operation("cron.create", created.name(), definition.expression()),
                () -> store.insert(scheduled(created, store.now()), payload))) {
            throw new CronRejectedException("Cron '%s' exists already".formatted(definition.name()));
        }
        caller.afterCommit(engine::announce);
    }

    @Override
    public void change(CronDefinition definition) {
        Arguments.required("Crons.change", "definition", definition);
        requireMayChange("Crons.change");
        handlers.requireComplete("Crons.change");
        Definition changed = checks.check(definition);
        String payload = checks.payload(definition);
        audited.record(new Operation("cron.change", changed.name(), definition.expression()), () -> {
            caller.inOne(() -> change(changed, payload));
            return true;
        });
        caller.afterCommit(engine::announce);
    }

    private void change(Definition changed, String payload) {
        String name = changed.name();
        CronRow old = store.lockRow(name).filter(cron -> !cron.declared()).orElseThrow(() -> unknownOrDeclared(name));
        if (old.hasSameSlotsAs(changed) && old.next() != null) {
            store.update(new ScheduledDefinition(changed, old.next()), payload);
        } else {
            // The old schedule has all slots up to this time, the new one all slots after it.
            Instant now = store.now();
            List<DecidedSlot> decided = replacement.decideDueSlots(old, now, null);
            store.update(scheduled(changed, now), payload);
            caller.afterCommit(() -> engine.reportDecided(decided));
        }
    }

    private ScheduledDefinition scheduled(Definition definition, Instant after) {
        return new ScheduledDefinition(definition, checks.schedule(definition).next(after));
    }

    private void requireMayChange(String call) {
        node.requireMayMutate();
        caller.requireWritable(call);
    }

    private CronRejectedException unknownOrDeclared(String name) {
        return new CronRejectedException(
                find(name).isPresent()
                        ? "Cron '%s' is declared in code. Change it there, or pause it.".formatted(name)
                        : "Unknown cron '%s'".formatted(name));
    }

    @Override
    public boolean delete(String name) {
        CronDefinitionChecks.requireLookupName("Crons.delete", name);
        requireMayChange("Crons.delete");
        boolean deleted = inTransaction("cron.delete", name, () -> {
            if (store.lockRow(name).filter(cron -> !cron.declared()).isEmpty()) {
                return false;
            }
            runs.cancelNotStarted(name, "cron deleted before the run started");
            return store.delete(name);
        });
        if (!deleted && find(name).isPresent()) {
            throw unknownOrDeclared(name);
        }
        return deleted;
    }

    @Override
    public boolean pause(String name) {
        CronDefinitionChecks.requireLookupName("Crons.pause", name);
        requireMayChange("Crons.pause");
        return inTransaction("cron.pause", name, () -> {
            boolean paused = store.pause(name, true);
            if (paused) {
                runs.cancelNotStarted(name, "cron paused before the run started");
            }
            return paused;
        });
    }

    private boolean inTransaction(String action, String name, BooleanSupplier change) {
        return audited.record(new Operation(action, name), () -> caller.inOne(change::getAsBoolean));
    }

    @Override
    public boolean resume(String name) {
        CronDefinitionChecks.requireLookupName("Crons.resume", name);
        requireMayChange("Crons.resume");
        boolean resumed = audited.record(new Operation("cron.resume", name), () -> store.pause(name, false));
        if (resumed) {
            // The leader removes the cron if no node declares it any more; the pause has kept it.
            caller.afterCommit(engine::announce);
        }
        return resumed;
    }

    @Override
    public Optional<UUID> trigger(String name) {
        CronDefinitionChecks.requireLookupName("Crons.trigger", name);
        requireMayChange("Crons.trigger");
        handlers.requireComplete("Crons.trigger");
        Optional<UUID> triggered = audited.record(
                new Operation("cron.trigger", name),
                () -> caller.inOne(() -> enqueueNow(name)),
                job -> job.isPresent() ? 1 : 0);
        if (triggered.isPresent()) {
            caller.afterCommit(() -> jobs.announce(JobPriority.NORMAL));
        }
        return triggered;
    }

    private Optional<UUID> enqueueNow(String name) {
        DueCron cron = slots.lock(name).orElseThrow(() -> new CronRejectedException(unknown(name)));
        Definition definition = cron.definition();
        HandlerAvailability availability = slots.availableHandlers().get(definition.handler());
        if (availability == null || !availability.mayRun(definition.target())) {
            throw new CronRejectedException("Cron '%s': no live %s has handler '%s'"
                    .formatted(
                            name,
                            definition.target() == CronTarget.LEADER || availability == null ? "node" : "worker",
                            definition.handler()));
        }
        UnfinishedRun previous = definition.overlap() == Overlap.SKIP ? previousRun(cron) : null;
        UUID job = previous == null ? ids.next() : null;
        var slot = new DecidedSlot(
                name,
                store.now(),
                job == null ? CronRun.Outcome.SKIPPED : CronRun.Outcome.RAN,
                previous == null
                        ? "triggered"
                        : "triggered, but " + CronSlotBatch.describe(previous).description(),
                job,
                job == null ? null : capability(definition, availability),
                0,
                cron.lastSlot());
        slots.record(List.of(slot), null);
        caller.afterCommit(() -> monitor.fired(name, slot.outcome()));
        if (job != null) {
            slots.enqueue(List.of(slot), null);
            slots.recordTriggeredRun(name, job);
        }
        return Optional.ofNullable(job);
    }

    private String unknown(String name) {
        return declarations.all().containsKey(name)
                ? "Cron '%s' is declared by this node, but the scheduler leader has not stored it yet. Try again in a second."
                        .formatted(name)
                : "Unknown cron '%s'".formatted(name);
    }

    /** Returns the previous run if it blocks this one. A run that waits for its next attempt is cancelled instead. */
    private @Nullable UnfinishedRun previousRun(DueCron cron) {
        UUID job = cron.lastJob();
        UnfinishedRun previous =
                job == null ? null : runs.unfinishedRuns(List.of(job)).get(job);
        if (previous == null
                || !previous.isRetry()
                || cron.definition().misfire() == Misfire.CATCH_UP
                || cancels.cancelRetries(List.of(previous.job()), CronSlotBatch.REPLACED)
                        .isEmpty()) {
            return previous;
        }
        return null;
    }

    // This node need not be the leader: any scheduler that has the handler may run it.
    private static @Nullable String capability(Definition definition, HandlerAvailability availability) {
        return definition.target() == CronTarget.LEADER && availability.onSchedulers()
                ? LeaderCapabilities.SCHEDULER
                : definition.capability();
    }

    @Override
    public Optional<CronInfo> find(String name) {
        CronDefinitionChecks.requireLookupName("Crons.find", name);
        return reports.find(name);
    }

    @Override
    public Page<CronInfo> list(int limit, @Nullable String cursor) {
        Arguments.limit("Crons.list", limit, MOST_LISTED);
        var cursors = new Cursors("Crons.list", "crons");
        String after = cursors.decodeOne(cursor, name -> {
            Names.requirePrintable("cron", name);
            return name;
        });
        return cursors.page(reports.page(after, limit), limit, CronInfo::name);
    }

    @Override
    public Page<CronRun> runs(String name, int limit, @Nullable String cursor) {
        CronDefinitionChecks.requireLookupName("Crons.runs", name);
        Arguments.limit("Crons.runs", limit, MOST_LISTED);
        var cursors = new Cursors("Crons.runs", "runs of cron " + name);
        Instant before = cursors.decodeOne(cursor, Instant::parse);
        return cursors.page(
                reports.runs(name, before, limit), limit, run -> run.slot().toString());
    }

    @Override
    public Map<String, List<CronRun>> latestRuns(Collection<String> names, int limit) {
        Arguments.names("Crons.latestRuns", names, MOST_LISTED);
        names.forEach(name -> CronDefinitionChecks.requireLookupName("Crons.latestRuns", name));
        Arguments.limit("Crons.latestRuns", limit, MOST_LATEST);
        return names.isEmpty() ? Map.of() : reports.latestRuns(Set.copyOf(names), limit);
    }

    @Override
    public List<Instant> upcoming(String name, int limit) {
        CronDefinitionChecks.requireLookupName("Crons.upcoming", name);
        Arguments.limit("Crons.upcoming", limit, MOST_LISTED);
        CronInfo cron = reports.find(name).orElse(null);
        var slots = new ArrayList<Instant>();
        if (cron == null) {
            return slots;
        }
        CronSchedule schedule;
        try {
            schedule = CronSchedule.of(cron.expression(), cron.zone());
        } catch (IllegalArgumentException e) {
            // The table holds an invalid expression; CronInfo.problem says so.
            return slots;
        }
        for (Instant slot = cron.next(); slot != null && slots.size() < limit; slot = schedule.next(slot)) {
            slots.add(slot);
        }
        return slots;
    }
}

package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronStore.Active;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.Due;
import dev.forge.cluster.internal.cron.CronStore.Known;
import dev.forge.cluster.internal.cron.CronStore.Scheduled;
import dev.forge.cluster.internal.cron.CronStore.Slot;
import dev.forge.cluster.internal.cron.CronStore.Stored;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.JobHandler;
import dev.forge.cluster.internal.job.JobHandlers;
import dev.forge.cluster.internal.job.JobIds;
import dev.forge.cluster.internal.job.JobMonitor;
import dev.forge.cluster.internal.job.ReservedNames;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.AfterCommit;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.CallerTransaction;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;
import java.util.UUID;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** {@link Crons} in the tables, in the caller's transactions. */
public final class DefaultCrons implements Crons {

    /** As many as are decided at once. */
    static final int LARGEST_CATCH_UP = 1_000;

    private static final int LONGEST_NAME = 200;
    private static final Pattern NO_PATH = Pattern.compile("(^|/)\\.{0,2}(/|$)");

    private final Node node;
    private final JobEngine jobs;
    private final CronEngine engine;
    private final CronDeclarations crons;
    private final JobHandlers handlers;
    private final DataSource application;
    private final CronStore store;
    private final PayloadJson json;
    private final JobIds ids;
    private final JobMonitor monitor;
    private final ReservedNames reserved;

    /** The engines behind it. */
    public record Engines(JobEngine jobs, CronEngine crons) {}

    public DefaultCrons(
            Node node, Engines engines, CronDeclarations crons, DataSource application, JobEngine.Tools tools) {
        this.node = node;
        this.reserved = new ReservedNames(node, crons.handlers());
        this.jobs = engines.jobs;
        this.engine = engines.crons;
        this.crons = crons;
        this.handlers = crons.handlers();
        this.application = application;
        this.store = new CronStore(node.resources().schema(), application);
        this.json = new PayloadJson(tools.codec(), tools.maxBytes());
        this.ids = new JobIds(node.clock());
        this.monitor = tools.monitor();
    }

    @Override
    public void create(CronDefinition definition) {
        Arguments.required("Crons.create", "definition", definition);
        requireMayChange("Crons.create");
        handlers.requireComplete("Crons.create");
        if (!store.insert(scheduled(definition), payload(definition))) {
            throw new CronRejectedException("there is a cron '%s' already".formatted(definition.name()));
        }
        AfterCommit.run(engine::announce);
    }

    @Override
    public void change(CronDefinition definition) {
        Arguments.required("Crons.change", "definition", definition);
        requireMayChange("Crons.change");
        handlers.requireComplete("Crons.change");
        Scheduled changed = scheduled(definition);
        String payload = payload(definition);
        store.transaction().executeWithoutResult(status -> change(changed, payload));
        AfterCommit.run(engine::announce);
    }

    private void requireMayChange(String call) {
        node.requireMayMutate();
        CallerTransaction.requireWritable(call, application);
    }

    private void change(Scheduled changed, String payload) {
        String name = changed.definition().name();
        Stored former = store.lockRow(name).filter(cron -> !cron.declared()).orElseThrow(() -> missingOrDeclared(name));
        if (former.hasSlotsOf(changed.definition()) && former.next() != null) {
            store.update(new Scheduled(changed.definition(), former.next()), payload);
        } else {
            engine.leaveOut(store, former, store.now(), null);
            store.update(changed, payload);
        }
    }

    private CronRejectedException missingOrDeclared(String name) {
        return new CronRejectedException(
                find(name).isPresent()
                        ? "cron '%s' is declared in code: change it there, or pause it".formatted(name)
                        : "there is no cron '%s'".formatted(name));
    }

    @Override
    public boolean delete(String name) {
        requireName("Crons.delete", name);
        requireMayChange("Crons.delete");
        boolean deleted = Boolean.TRUE.equals(store.transaction().execute(status -> {
            if (store.lockRow(name).filter(cron -> !cron.declared()).isEmpty()) {
                return false;
            }
            store.cancelUnbegun(name, "its cron was deleted before it began");
            return store.delete(name);
        }));
        if (!deleted && find(name).isPresent()) {
            throw missingOrDeclared(name);
        }
        return deleted;
    }

    @Override
    public boolean pause(String name) {
        requireName("Crons.pause", name);
        requireMayChange("Crons.pause");
        return Boolean.TRUE.equals(store.transaction().execute(status -> {
            boolean paused = store.pause(name, true);
            if (paused) {
                store.cancelUnbegun(name, "its cron was paused before it began");
            }
            return paused || find(name).isPresent();
        }));
    }

    @Override
    public boolean resume(String name) {
        requireName("Crons.resume", name);
        requireMayChange("Crons.resume");
        boolean resumed = store.pause(name, false);
        if (resumed) {
            // It may be one that no node declares any more, and stayed only because it was paused.
            AfterCommit.run(engine::announce);
        }
        return resumed;
    }

    @Override
    public Optional<UUID> trigger(String name) {
        requireName("Crons.trigger", name);
        requireMayChange("Crons.trigger");
        handlers.requireComplete("Crons.trigger");
        Optional<UUID> triggered = Objects.requireNonNull(store.transaction().execute(status -> run(name)));
        if (triggered.isPresent()) {
            AfterCommit.run(() -> jobs.announce(JobPriority.NORMAL));
        }
        return triggered;
    }

    private Optional<UUID> run(String name) {
        Due cron = store.lock(name).orElseThrow(() -> new CronRejectedException(missing(name)));
        Definition definition = cron.definition();
        Known knowing = store.knownHandlers().get(definition.handler());
        if (knowing == null || !knowing.mayRun(definition.target())) {
            throw new CronRejectedException("cron '%s': no live %s has its handler '%s'"
                    .formatted(
                            name,
                            definition.target() == CronTarget.LEADER || knowing == null ? "node" : "worker",
                            definition.handler()));
        }
        Active former = definition.overlap() == Overlap.SKIP ? former(cron) : null;
        String busy = former == null ? null : CronEngine.former(former).what();
        boolean overlaps = busy != null;
        UUID job = overlaps ? null : ids.next();
        var slot = new Slot(
                name,
                store.now(),
                overlaps ? CronRun.Outcome.SKIPPED : CronRun.Outcome.RAN,
                overlaps ? "triggered, but " + busy : "triggered",
                job,
                overlaps ? null : triggeredCapability(definition, knowing),
                0,
                cron.lastSlot());
        store.record(List.of(slot), null);
        AfterCommit.run(() -> monitor.fired(name, slot.outcome()));
        if (job != null) {
            store.enqueue(List.of(slot), null);
            store.triggered(name, job);
        }
        return Optional.ofNullable(job);
    }

    private String missing(String name) {
        return crons.all().containsKey(name)
                ? "cron '%s' is declared by this node, but the scheduler leader has not entered it yet; try again in a second"
                        .formatted(name)
                : "there is no cron '%s'".formatted(name);
    }

    /** The former run, unless it has ended, or has failed and only waits for another try: then this one takes its place. */
    private @Nullable Active former(Due cron) {
        UUID job = cron.lastJob();
        Active former = job == null ? null : store.active(List.of(job)).get(job);
        if (former == null
                || !former.isRetry()
                || cron.definition().misfire() == Misfire.CATCH_UP
                || store.cancelRetries(List.of(former.job()), CronEngine.REPLACED)
                        .isEmpty()) {
            return former;
        }
        return null;
    }

    // Who triggers need not be who leads: any node that could lead and knows it may take it.
    private static @Nullable String triggeredCapability(Definition definition, Known knowing) {
        return definition.target() == CronTarget.LEADER && knowing.schedulers()
                ? JobEngine.SCHEDULER
                : definition.capability();
    }

    @Override
    public Optional<CronInfo> find(String name) {
        requireName("Crons.find", name);
        return store.infos(name).stream().findFirst();
    }

    @Override
    public List<CronInfo> list() {
        return store.infos(null);
    }

    @Override
    public List<CronRun> runs(String name, int limit) {
        requireName("Crons.runs", name);
        if (limit < 1) {
            throw new CronRejectedException("%d runs of cron '%s' cannot be listed".formatted(limit, name));
        }
        return store.runs(name, limit);
    }

    // -------------------------------------------------------------------------------------------------------

    private Scheduled scheduled(CronDefinition cron) {
        Definition definition = definition(cron);
        Instant next;
        try {
            next = CronSchedule.of(definition.expression(), definition.zone()).next(store.now());
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("cron '%s': %s".formatted(cron.name(), e.getMessage()), e);
        }
        return new Scheduled(definition, next);
    }

    private Definition definition(CronDefinition cron) {
        String name = cron.name();
        requireName(name);
        requireText(name, "expression", cron.expression());
        requireText(name, "handler", cron.handler());
        CronEngine.Defaults defaults = engine.settings().defaults();
        Integer limit = cron.catchUpLimit();
        requireBetween(name, "catch-up limit", limit == null ? 1 : limit, 1, LARGEST_CATCH_UP);
        Integer attempts = cron.maxAttempts();
        requireBetween(name, "max attempts", attempts == null ? 1 : attempts, 1, Integer.MAX_VALUE);
        requireJitter(cron);
        requireSaid(name, "target", cron.target());
        requireSaid(name, "misfire", cron.misfire());
        requireSaid(name, "overlap", cron.overlap());
        requireHandler(cron);
        ZoneId zone = cron.zone();
        JobHandler handler = handlers.named(cron.handler());
        String capability = cron.capability();
        if (capability != null) {
            requireText(name, "capability", capability);
        }
        return new Definition(
                name,
                cron.handler(),
                normal(cron),
                zone == null ? defaults.zone() : zone.getId(),
                cron.target(),
                capability == null && handler != null ? handler.capability() : capability,
                cron.misfire() == Misfire.DEFAULT ? defaults.misfire() : cron.misfire(),
                limit == null ? defaults.catchUpLimit() : limit,
                cron.overlap(),
                cron.jitter().toMillis(),
                attempts);
    }

    private static String normal(CronDefinition cron) {
        try {
            return CronSchedule.normal(cron.expression());
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("cron '%s': %s".formatted(cron.name(), e.getMessage()), e);
        }
    }

    private void requireHandler(CronDefinition cron) {
        String handler = cron.handler();
        try {
            reserved.requireFreeName(handler);
        } catch (JobRejectedException e) {
            throw new CronRejectedException("cron '%s': %s".formatted(cron.name(), e.getMessage()), e);
        }
        boolean here = handlers.named(handler) != null;
        Map<String, Known> known = here ? Map.of() : store.knownHandlers();
        if (!here && !known.containsKey(handler)) {
            var all = new TreeSet<>(known.keySet());
            all.addAll(handlers.names());
            all.removeIf(reserved::isReserved);
            throw new CronRejectedException(
                    "cron '%s': no live node has a handler '%s'; known are %s".formatted(cron.name(), handler, all));
        }
        if (cron.target() == CronTarget.LEADER
                && !crons.all().containsKey(handler)
                && store.infos(handler).stream().noneMatch(CronInfo::declared)) {
            throw new CronRejectedException(
                    "cron '%s': the leader runs methods with @ClusterCron only, and '%s' is none; use ANY_WORKER"
                            .formatted(cron.name(), handler));
        }
    }

    // What is null nevertheless is refused like any other nonsense.
    private static void requireSaid(String cron, String what, @Nullable Object value) {
        if (value == null) {
            throw new CronRejectedException("cron '%s': its %s is null".formatted(cron, what));
        }
    }

    private static void requireName(String name) {
        requireSaid("", "name", name);
        requireText(name, "name", name);
        if (name.length() > LONGEST_NAME) {
            throw new CronRejectedException("the name '%s...' of a cron has %d characters, more than %d"
                    .formatted(name.substring(0, 20), name.length(), LONGEST_NAME));
        }
        if (NO_PATH.matcher(name).find()) {
            throw new CronRejectedException(
                    "the name '%s' of a cron is no path by which the endpoint could find it".formatted(name));
        }
    }

    private static void requireJitter(CronDefinition cron) {
        requireSaid(cron.name(), "jitter", cron.jitter());
        if (cron.jitter().isNegative() || cron.jitter().compareTo(CronEngine.LONGEST_JITTER) > 0) {
            throw new CronRejectedException("cron '%s': jitter %s does not lie between 0 and %s"
                    .formatted(cron.name(), cron.jitter(), CronEngine.LONGEST_JITTER));
        }
    }

    /** PostgreSQL fails at a NUL, as if the database were to blame. */
    private static void requireName(String call, String name) {
        Arguments.required(call, "name", name);
        try {
            Names.requirePrintable("cron", name);
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("%s: %s".formatted(call, e.getMessage()), e);
        }
    }

    private static void requireText(String cron, String what, String text) {
        requireSaid(cron, what, text);
        if (text.isBlank()) {
            throw new CronRejectedException(
                    "cron '%s': its %s '%s' is empty".formatted(Names.printable(cron), what, Names.printable(text)));
        }
        try {
            Names.requirePrintable(what, text);
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("cron '%s': its %s".formatted(Names.printable(cron), e.getMessage()), e);
        }
    }

    private static void requireBetween(String cron, String what, long value, long least, long most) {
        if (value < least || value > most) {
            throw new CronRejectedException(
                    "cron '%s': %s %d does not lie between %d and %d".formatted(cron, what, value, least, most));
        }
    }

    private String payload(CronDefinition cron) {
        Object payload = cron.payload();
        JobHandler handler = handlers.named(cron.handler());
        try {
            String text = payload == null ? "{}" : json.write(payload);
            if (handler != null) {
                handler.target().requireReadable(json, payload, text);
            }
            return text;
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("the payload of cron '%s' %s".formatted(cron.name(), e.getMessage()), e);
        }
    }
}

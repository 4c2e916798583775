package dev.forge.cluster.internal.engine;

import dev.forge.cluster.CronDefinition;
import dev.forge.cluster.CronInfo;
import dev.forge.cluster.CronRejectedException;
import dev.forge.cluster.CronRun;
import dev.forge.cluster.CronTarget;
import dev.forge.cluster.Crons;
import dev.forge.cluster.JobPriority;
import dev.forge.cluster.Misfire;
import dev.forge.cluster.Overlap;
import dev.forge.cluster.internal.store.CronStore;
import dev.forge.cluster.internal.store.CronStore.Definition;
import dev.forge.cluster.internal.store.CronStore.Due;
import dev.forge.cluster.internal.store.CronStore.Known;
import dev.forge.cluster.internal.store.CronStore.Scheduled;
import dev.forge.cluster.internal.store.CronStore.Slot;
import dev.forge.cluster.internal.store.CronStore.Stored;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;
import java.util.UUID;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** {@link Crons} in the tables, in the caller's transactions. */
public final class StoredCrons implements Crons {

    /** As many as are decided at once. */
    static final int LARGEST_CATCH_UP = 1_000;

    private static final Duration LONGEST_JITTER = Duration.ofDays(1);

    private final Node node;
    private final JobEngine jobs;
    private final CronEngine engine;
    private final JobHandlers handlers;
    private final CronStore store;
    private final JobJson json;
    private final JobIds ids;

    /** The engines behind it. */
    public record Engines(JobEngine jobs, CronEngine crons) {}

    public StoredCrons(
            Node node, Engines engines, JobHandlers handlers, DataSource application, JobEngine.Tools tools) {
        this.node = node;
        this.jobs = engines.jobs;
        this.engine = engines.crons;
        this.handlers = handlers;
        this.store = new CronStore(node.members().schema(), application);
        this.json = new JobJson(tools.codec(), tools.maxBytes());
        this.ids = new JobIds(node.clock(), RandomGenerator.getDefault());
    }

    @Override
    public void create(CronDefinition definition) {
        node.requireMayMutate();
        if (!store.insert(scheduled(definition), payload(definition))) {
            throw new CronRejectedException("there is a cron '%s' already".formatted(definition.name()));
        }
        AfterCommit.run(engine::announce);
    }

    @Override
    public void change(CronDefinition definition) {
        node.requireMayMutate();
        Scheduled changed = scheduled(definition);
        String payload = payload(definition);
        store.transaction().executeWithoutResult(status -> change(changed, payload));
        AfterCommit.run(engine::announce);
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
        node.requireMayMutate();
        boolean deleted = store.delete(name);
        if (!deleted && find(name).isPresent()) {
            throw missingOrDeclared(name);
        }
        return deleted;
    }

    @Override
    public boolean pause(String name) {
        node.requireMayMutate();
        return store.pause(name, true) || find(name).isPresent();
    }

    @Override
    public boolean resume(String name) {
        node.requireMayMutate();
        boolean resumed = store.pause(name, false);
        if (resumed) {
            // It may be one that no node declares any more, and stayed only because it was paused.
            AfterCommit.run(engine::announce);
        }
        return resumed;
    }

    @Override
    public Optional<UUID> trigger(String name) {
        node.requireMayMutate();
        Optional<UUID> triggered = Objects.requireNonNull(store.transaction().execute(status -> run(name)));
        if (triggered.isPresent()) {
            AfterCommit.run(() -> jobs.announce(JobPriority.NORMAL));
        }
        return triggered;
    }

    private Optional<UUID> run(String name) {
        Due cron =
                store.lock(name).orElseThrow(() -> new CronRejectedException("there is no cron '%s'".formatted(name)));
        Definition definition = cron.definition();
        Known knowing = store.knownHandlers().get(definition.handler());
        if (knowing == null) {
            throw new CronRejectedException(
                    "cron '%s': no live node has its handler '%s'".formatted(name, definition.handler()));
        }
        boolean overlaps = cron.active() != null && definition.overlap() == Overlap.SKIP;
        UUID job = overlaps ? null : ids.next();
        var slot = new Slot(
                name,
                store.now(),
                overlaps ? CronRun.Outcome.SKIPPED : CronRun.Outcome.RAN,
                overlaps ? "triggered, but job %s has not ended".formatted(cron.active()) : "triggered",
                job,
                overlaps ? null : triggeredCapability(definition, knowing),
                0,
                cron.lastSlot());
        store.record(List.of(slot), null);
        if (job != null) {
            store.enqueue(List.of(slot), null);
            store.triggered(name, job);
        }
        return Optional.ofNullable(job);
    }

    // Who triggers need not be who leads: any node that could lead and knows it may take it.
    private static @Nullable String triggeredCapability(Definition definition, Known knowing) {
        return definition.target() == CronTarget.LEADER && knowing.schedulers()
                ? JobEngine.SCHEDULER
                : definition.capability();
    }

    @Override
    public Optional<CronInfo> find(String name) {
        return store.infos(name).stream().findFirst();
    }

    @Override
    public List<CronInfo> list() {
        return store.infos(null);
    }

    @Override
    public List<CronRun> runs(String name, int limit) {
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
        requireText(name, "name", name);
        requireText(name, "handler", cron.handler());
        CronEngine.Defaults defaults = engine.settings().defaults();
        Integer limit = cron.catchUpLimit();
        requireBetween(name, "catch-up limit", limit == null ? 1 : limit, 1, LARGEST_CATCH_UP);
        Integer attempts = cron.maxAttempts();
        requireBetween(name, "max attempts", attempts == null ? 1 : attempts, 1, Integer.MAX_VALUE);
        requireBetween(name, "jitter in ms", cron.jitter().toMillis(), 0, LONGEST_JITTER.toMillis());
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
                cron.expression().trim(),
                zone == null ? defaults.zone() : zone.getId(),
                cron.target(),
                capability == null && handler != null ? handler.capability() : capability,
                cron.misfire() == Misfire.DEFAULT ? defaults.misfire() : cron.misfire(),
                limit == null ? defaults.catchUpLimit() : limit,
                cron.overlap(),
                cron.jitter().toMillis(),
                attempts);
    }

    private void requireHandler(CronDefinition cron) {
        String handler = cron.handler();
        boolean here = handlers.named(handler) != null;
        Map<String, Known> known = here ? Map.of() : store.knownHandlers();
        if (!here && !known.containsKey(handler)) {
            var all = new TreeSet<>(known.keySet());
            all.addAll(handlers.names());
            throw new CronRejectedException(
                    "cron '%s': no live node has a handler '%s'; known are %s".formatted(cron.name(), handler, all));
        }
        if (cron.target() == CronTarget.LEADER
                && !handlers.crons().containsKey(handler)
                && store.infos(handler).stream().noneMatch(CronInfo::declared)) {
            throw new CronRejectedException(
                    "cron '%s': the leader runs methods with @ClusterCron only, and '%s' is none; use ANY_WORKER"
                            .formatted(cron.name(), handler));
        }
    }

    private static void requireText(String cron, String what, String text) {
        if (text.isBlank() || text.indexOf('\0') >= 0) {
            throw new CronRejectedException("cron '%s': its %s '%s' is empty or holds a NUL character"
                    .formatted(cron.replace('\0', '?'), what, text.replace('\0', '?')));
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
        if (payload == null) {
            return "{}";
        }
        try {
            return json.write(payload);
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("the payload of cron '%s' %s".formatted(cron.name(), e.getMessage()), e);
        }
    }
}

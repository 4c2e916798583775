package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronPlan.Decision;
import dev.forge.cluster.internal.cron.CronStore.Active;
import dev.forge.cluster.internal.cron.CronStore.Advance;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.Due;
import dev.forge.cluster.internal.cron.CronStore.Handler;
import dev.forge.cluster.internal.cron.CronStore.Known;
import dev.forge.cluster.internal.cron.CronStore.LeftAlone;
import dev.forge.cluster.internal.cron.CronStore.LiveSets;
import dev.forge.cluster.internal.cron.CronStore.Place;
import dev.forge.cluster.internal.cron.CronStore.Scheduled;
import dev.forge.cluster.internal.cron.CronStore.Slot;
import dev.forge.cluster.internal.cron.CronStore.Stored;
import dev.forge.cluster.internal.database.Causes;
import dev.forge.cluster.internal.database.ServerFailure;
import dev.forge.cluster.internal.job.GuardedMonitor;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.JobIds;
import dev.forge.cluster.internal.job.JobMonitor;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PurgeBatch;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.TransientDataAccessException;

/**
 * Makes the crons of this node known, and, if it leads the scheduler role, fires all crons of the cluster.
 *
 * <p><b>Firing.</b> A batch of due crons is one transaction: what becomes of each slot goes to the ledger, runs become jobs,
 * the crons move on, and the fence of the leader's term comes last. Whatever happens to the leader, a slot is decided once.
 *
 * <p><b>Definitions.</b> Every node names a digest of all that its build declares. The leader brings the table in line with
 * the builds that live; where they differ about a cron, the newer one counts. A cron leaves the table when no live build
 * declares it.
 */
public final class CronEngine implements NodeComponent {

    /** Crons were declared, made or changed. */
    static final String NEWS = "crons";

    private static final Logger log = GuardedLogger.of(CronEngine.class);
    private static final Duration TICK = Duration.ofSeconds(1);
    /** How soon a new leader notices that it is one; asks nobody. */
    private static final Duration STANDBY = Duration.ofMillis(200);
    /** While some slots cannot be decided yet. */
    private static final Duration UNDECIDED = Duration.ofMillis(250);

    private static final Duration LOOK_FOR_SETS = Duration.ofSeconds(5);
    private static final Duration KNOWN_FOR = Duration.ofSeconds(2);
    /** How long a cron that no live node declares stays in the table. */
    private static final Duration ORPHANED = Duration.ofSeconds(15);
    /** What builds declare, and where crons were that have gone: tiny, and an old build that returns must be known as one. */
    private static final Duration REMEMBERED = Duration.ofDays(365);
    /** A deployment is over by then: builds that still differ about a cron may be two applications. */
    private static final Duration DISPUTED = Duration.ofMinutes(5);
    /** A run that has taken a slot of the leader for longer is no quick one. */
    private static final Duration LONG = Duration.ofMinutes(1);
    /** How long a cron is left alone that could not be fired. */
    private static final Duration ASIDE = Duration.ofSeconds(30);

    /** What a jitter may be at most. */
    public static final Duration LONGEST_JITTER = Duration.ofDays(1);

    static final String REPLACED = "the run of a later slot took its place";

    private static final int BATCH = 500;
    private static final int LARGEST_BATCH = 10_000;
    /**
     * What the payloads of the runs of one batch may take: one statement enqueues them, and must have done so before its
     * connection is given up. A batch that takes longer would fail again and again, and with it all crons.
     */
    private static final long LARGEST_PAYLOADS = 4_000_000;

    /** What is due after that time is left to the next pass. */
    private static final Duration LONGEST_PASS = Duration.ofSeconds(5);

    private static final int PURGE_BATCH = 5_000;

    private final Node node;
    private final PurgeBatch purge;
    private final JobEngine jobs;
    private final CronDeclarations crons;
    private final Settings settings;
    private final CronStore store;
    private final LeaderStore leaders;
    private final JobMonitor monitor;
    private final JobIds ids;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final Map<String, CronSchedule> schedules = new ConcurrentHashMap<>();

    // Of the duty's thread alone.
    private Duration pause = Duration.ZERO;
    private boolean declared;
    private long leadingTerm;
    private boolean undisputed;
    private @Nullable Set<String> reconciled;
    private long nextLook;
    private final Map<String, Long> orphanedSince = new HashMap<>();
    private Set<String> foreign = Set.of();
    private Map<String, Known> known = Map.of();
    private long knownAt;
    /** What slots that are due wait for. */
    private final Set<Handler> waiting = new HashSet<>();
    /** Crons that could not be fired, and when that was. */
    private final Map<String, Long> aside = new HashMap<>();

    private final Map<String, Long> disputedSince = new HashMap<>();
    private final Set<String> warnedOf = new HashSet<>();
    private boolean full;

    private volatile boolean changed;
    private volatile Duration disputed = DISPUTED;
    private volatile Duration longRun = LONG;
    private volatile Duration orphaned = ORPHANED;
    private volatile Duration leftAloneFor = ASIDE;

    /**
     * How crons are fired.
     *
     * @param threshold slots that are later than that are misfires
     * @param retention how long the ledger is kept
     * @param defaults for what a cron does not say
     */
    public record Settings(Duration threshold, Duration retention, Defaults defaults) {}

    /** What a cron does not say. */
    public record Defaults(String zone, Misfire misfire, int catchUpLimit) {}

    private final NodeLoop firing = NodeLoop.of("fire-crons", () -> pause, this::pass);

    public CronEngine(Node node, JobEngine jobs, CronDeclarations crons, JobMonitor monitor, Settings settings) {
        this.node = node;
        this.purge = new PurgeBatch("rows of the ledger", PURGE_BATCH, node::nanos);
        this.jobs = jobs;
        this.crons = crons;
        this.settings = settings;
        this.monitor = GuardedMonitor.of(monitor);
        Node.Resources resources = node.resources();
        this.store = new CronStore(resources.schema(), resources.control());
        this.leaders = new LeaderStore(resources.schema(), resources.control());
        this.ids = new JobIds(node.clock());
    }

    // Life --------------------------------------------------------------------------------------------------

    @Override
    public Map<String, String> facts() {
        String digest = digest();
        return digest == null ? Map.of() : Map.of("crons", digest);
    }

    private @Nullable String digest() {
        if (crons.all().isEmpty() || node.settings().presence().mode() == NodeMode.OBSERVER) {
            return null;
        }
        try {
            byte[] all = crons.all().values().toString().getBytes(StandardCharsets.UTF_8);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(all), 0, 8);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(firing, NodeLoop.cleanUp("clean-up-crons", this::cleanUp));
    }

    @Override
    public void begin() {
        declared = false;
        firing.wake();
    }

    @Override
    public void heard(String news) {
        if (news.equals(NEWS)) {
            changed = true;
            firing.wake();
        }
    }

    /** Decides due slots at once. */
    void fireSoon() {
        firing.wake();
    }

    /** Crons were made or changed, and that is committed. */
    void announce() {
        changed = true;
        firing.wake();
        jobs.tell(NEWS);
    }

    // Duties ------------------------------------------------------------------------------------------------

    /** One tick. */
    void pass() {
        pause = STANDBY;
        declare();
        OptionalLong term = node.elector().term(Leadership.SCHEDULER);
        UUID self = node.id();
        if (term.isEmpty() || self == null) {
            leadingTerm = 0;
            return;
        }
        long now = node.nanos();
        if (term.getAsLong() != leadingTerm) {
            // What the former leader saw does not count.
            leadingTerm = term.getAsLong();
            undisputed = false;
            reconciled = null;
            nextLook = now;
            orphanedSince.clear();
            schedules.clear();
            waiting.clear();
            aside.clear();
        }
        if (!undisputed && node.elector().isUndisputed(Leadership.SCHEDULER)) {
            undisputed = true;
            // Our own worker above all: it may now run what only the leader may, and what the former one has left.
            jobs.announce(JobPriority.NORMAL);
        }
        var leader = new Leader(self, leadingTerm);
        if (changed || now - nextLook >= 0) {
            if (changed) {
                changed = false;
                reconciled = null;
            }
            nextLook = now + Math.min(LOOK_FOR_SETS.toNanos(), orphaned.toNanos());
            look(leader);
        }
        if (!waiting.isEmpty()) {
            learn();
        }
        Duration next = store.untilNext(leftAlone()).orElse(TICK);
        if (next.isNegative() || next.isZero()) {
            next = fire(leader) ? store.untilNext(leftAlone()).orElse(TICK) : Duration.ZERO;
            if (next.isNegative() || next.isZero()) {
                next = UNDECIDED;
            }
        }
        // A little later, so that it is due then by the database's clock too.
        Duration until = next.plusMillis(1);
        Duration longest = undisputed ? TICK : STANDBY;
        pause = until.compareTo(longest) < 0 ? until : longest;
    }

    private void declare() {
        String digest = digest();
        if (!declared && digest != null) {
            store.declare(digest, List.copyOf(crons.all().values()));
            jobs.tell(NEWS);
            changed = true;
        }
        declared = true;
    }

    /** Whoever is responsible for what it does now. */
    private record Leader(UUID node, long term) {}

    /** Runs changes that are undone if the term is over; answers whether they were made. */
    private boolean fenced(Leader leader, Runnable changes) {
        return Boolean.TRUE.equals(store.transaction().execute(status -> {
            changes.run();
            boolean leads = node.fences().take(leaders, Leadership.SCHEDULER, leader.node, leader.term);
            if (!leads) {
                status.setRollbackOnly();
                log.info("crons: term {} is over; what it was about to do is left to the next leader", leader.term);
            }
            return leads;
        }));
    }

    // Firing ------------------------------------------------------------------------------------------------

    /** Decides slots that are due and can be decided, all unless that takes too long; false if the term is over. */
    private boolean fire(Leader leader) {
        learn();
        Place place = Place.FIRST;
        long began = node.nanos();
        while (place != null && node.nanos() - began < LONGEST_PASS.toNanos()) {
            var batch = new Batch(leader.term, known);
            Place from = place;
            try {
                if (!fenced(leader, () -> batch.fill(store.due(from, BATCH, leftAlone())))) {
                    return false;
                }
            } catch (TransientDataAccessException e) {
                // A lock that could not be had in time, a deadlock: nobody's fault, the next pass tries again.
                throw e;
            } catch (RuntimeException e) {
                if (ServerFailure.caused(e)) {
                    // No cron is to blame: none could be fired. The next pass tries again.
                    throw e;
                }
                log.debug("crons: a batch could not be fired; trying one by one", e);
                return fireOneByOne(leader, from);
            }
            batch.report();
            place = batch.next;
        }
        return true;
    }

    /** So that the one which cannot be fired stops no other. */
    private boolean fireOneByOne(Leader leader, Place from) {
        for (String cron : store.dueNames(from, BATCH, leftAlone())) {
            var batch = new Batch(leader.term, known);
            try {
                if (!fenced(leader, () -> batch.fill(store.due(cron)))) {
                    return false;
                }
                batch.report();
            } catch (TransientDataAccessException e) {
                throw e;
            } catch (RuntimeException e) {
                if (ServerFailure.caused(e)) {
                    throw e;
                }
                if (!setAside(leader, cron, e)) {
                    return false;
                }
            }
        }
        return true;
    }

    private boolean setAside(Leader leader, String cron, RuntimeException cause) {
        // Of its message the first line: the others may show values.
        String message = String.valueOf(Causes.root(cause).getMessage());
        String problem = "could not be fired: " + message.lines().findFirst().orElse("");
        if (!fenced(leader, () -> store.setAside(cron, problem))) {
            return false;
        }
        if (aside.put(cron, node.nanos()) == null) {
            log.warn(
                    "cron {}: could not be fired; tried again every {} s",
                    Names.printable(cron),
                    leftAloneFor.toSeconds(),
                    ErrorText.loggable(cause));
        }
        return true;
    }

    private LeftAlone leftAlone() {
        long now = node.nanos();
        Set<String> names = aside.entrySet().stream()
                .filter(one -> now - one.getValue() < leftAloneFor.toNanos())
                .map(Map.Entry::getKey)
                .collect(Collectors.toSet());
        return new LeftAlone(names, Set.copyOf(waiting));
    }

    /** Asks who knows what, unless that was a moment ago. */
    private void learn() {
        long now = node.nanos();
        if (known.isEmpty() || now - knownAt > KNOWN_FOR.toNanos()) {
            known = store.knownHandlers();
            knownAt = now;
            waiting.removeIf(handler -> mayRun(known.get(handler.name()), handler.target()));
        }
    }

    private static boolean mayRun(@Nullable Known knowing, CronTarget target) {
        return knowing != null && knowing.mayRun(target);
    }

    /** What a run that has not ended is at. */
    static CronPlan.Former former(Active run) {
        String what = "job %s%s %s"
                .formatted(
                        run.job(),
                        run.slot() == null ? "" : " of slot " + Instant.parse(run.slot()),
                        switch (run.status()) {
                            case RUNNING -> "runs since " + seconds(run.since());
                            case PENDING ->
                                (run.isRetry() ? "retries at " : "waits for its turn since ") + seconds(run.since());
                            default -> "is about to run";
                        });
        return new CronPlan.Former(what, run.isRetry());
    }

    private static Instant seconds(Instant time) {
        return time.truncatedTo(ChronoUnit.SECONDS);
    }

    /** Slots that are decided by one transaction. */
    private final class Batch {
        private final long term;
        private final Map<String, Known> who;
        private final List<Slot> slots = new ArrayList<>();
        private final List<Advance> advances = new ArrayList<>();
        private List<Slot> decided = List.of();

        @Nullable
        Place next;

        Batch(long term, Map<String, Known> who) {
            this.term = term;
            this.who = who;
        }

        void fill(List<Due> due) {
            Map<UUID, Active> active = active(due);
            var planned = new ArrayList<Planned>();
            int size = 0;
            long bytes = 0;
            boolean atLimit = false;
            for (Due cron : due) {
                Planned plan = plan(cron, former(cron, active));
                if (plan != null) {
                    if (bytes > 0 && bytes + plan.bytes() > LARGEST_PAYLOADS) {
                        // It begins the next batch.
                        atLimit = true;
                        break;
                    }
                    plan = plan.withBytes(LARGEST_PAYLOADS);
                    planned.add(plan);
                    size += plan.plan.decisions().size();
                    bytes += plan.bytes();
                }
                next = new Place(cron.next(), cron.definition().name());
                if (size >= LARGEST_BATCH) {
                    atLimit = true;
                    break;
                }
            }
            if (due.size() < BATCH && !atLimit) {
                next = null;
            }
            makeRoom(planned).forEach(this::add);
            write();
        }

        /** Only those that may not overlap ask. */
        private Map<UUID, Active> active(List<Due> due) {
            return store.active(due.stream()
                    .filter(cron -> cron.definition().overlap() == Overlap.SKIP)
                    .map(Due::lastJob)
                    .filter(Objects::nonNull)
                    .toList());
        }

        private CronPlan.@Nullable Former former(Due cron, Map<UUID, Active> active) {
            Active run = cron.lastJob() == null ? null : active.get(cron.lastJob());
            return run == null ? null : CronEngine.former(run);
        }

        /** Calls off runs that later slots replace; one that a node has taken in this moment stays, and its cron waits. */
        private List<Planned> makeRoom(List<Planned> planned) {
            List<UUID> replaced = planned.stream()
                    .filter(one -> one.plan.replaces())
                    .map(one -> Objects.requireNonNull(one.cron.lastJob()))
                    .toList();
            if (replaced.isEmpty()) {
                return planned;
            }
            Set<UUID> gone = store.cancelRetries(replaced, REPLACED);
            Map<UUID, Active> taken = store.active(
                    replaced.stream().filter(job -> !gone.contains(job)).toList());
            return planned.stream()
                    .map(one -> {
                        Active run = one.plan.replaces() ? taken.get(one.cron.lastJob()) : null;
                        return run == null
                                ? one
                                : plan(
                                        one.cron,
                                        new CronPlan.Former(
                                                CronEngine.former(run).what(), false));
                    })
                    .filter(Objects::nonNull)
                    .toList();
        }

        private @Nullable Planned plan(Due cron, CronPlan.@Nullable Former former) {
            Definition definition = cron.definition();
            Known knowing = who.get(definition.handler());
            if (!mayRun(knowing, definition.target()) && !cron.paused()) {
                // Its slots wait until a node comes that may run the handler; then they are misfires.
                waiting.add(new Handler(definition.target(), definition.handler()));
                return null;
            }
            CronSchedule schedule;
            try {
                schedule = schedule(definition);
            } catch (IllegalArgumentException e) {
                log.error(
                        "cron {}: fires no more until it is changed: {}",
                        Names.printable(definition.name()),
                        Names.printable(String.valueOf(e.getMessage())));
                advances.add(new Advance(definition.name(), null, null, null, e.getMessage()));
                return null;
            }
            CronPlan plan = CronPlan.of(
                    schedule,
                    new CronPlan.Policy(definition.misfire(), definition.catchUpLimit(), definition.overlap()),
                    new CronPlan.Situation(
                            cron.now(),
                            cron.next(),
                            cron.paused(),
                            former,
                            settings.threshold,
                            cron.now().minus(settings.retention)));
            return new Planned(cron, knowing, plan);
        }

        private void add(Planned planned) {
            Due cron = planned.cron;
            Definition definition = cron.definition();
            Instant previous = cron.lastSlot();
            Instant lastSlot = null;
            UUID lastJob = null;
            for (Decision decision : planned.plan.decisions()) {
                UUID job = decision.outcome() == Outcome.RAN ? ids.next() : null;
                slots.add(new Slot(
                        definition.name(),
                        decision.slot(),
                        decision.outcome(),
                        decision.reason(),
                        job,
                        job == null ? null : capability(definition, Objects.requireNonNull(planned.knowing)),
                        job == null ? 0 : jitter(definition),
                        previous));
                if (job != null) {
                    previous = decision.slot();
                    lastSlot = decision.slot();
                    lastJob = job;
                }
            }
            if (!planned.plan.decisions().isEmpty() || !cron.next().equals(planned.plan.next())) {
                advances.add(new Advance(definition.name(), planned.plan.next(), lastSlot, lastJob, null));
            }
        }

        private void write() {
            if (!slots.isEmpty()) {
                decided = store.record(slots, term);
                List<Slot> runs =
                        decided.stream().filter(slot -> slot.job() != null).toList();
                if (!runs.isEmpty()) {
                    store.enqueue(runs, term);
                }
            }
            if (!advances.isEmpty()) {
                store.advance(advances);
            }
        }

        /** After the commit. */
        void report() {
            var left = new TreeMap<String, Integer>();
            for (Slot slot : decided) {
                monitor.fired(slot.cron(), slot.outcome());
                if (slot.outcome() == Outcome.MISSED) {
                    left.merge(slot.cron(), 1, Integer::sum);
                }
            }
            advances.forEach(advance -> aside.remove(advance.name()));
            left.forEach((cron, count) -> log.warn(
                    "cron {}: {} missed; see forge_cron_runs",
                    Names.printable(cron),
                    count == 1 ? "1 slot was" : count + " slots were"));
            if (decided.stream().anyMatch(slot -> slot.job() != null)) {
                jobs.announce(JobPriority.NORMAL);
            }
        }
    }

    /** What is to become of a cron's slots. */
    private record Planned(Due cron, @Nullable Known knowing, CronPlan plan) {

        /** What the payloads of its runs take. */
        long bytes() {
            return plan.runs() * cron.payloadBytes();
        }

        /** The same with as many runs as take no more than that. */
        Planned withBytes(long most) {
            return new Planned(cron, knowing, plan.withRuns(most / Math.max(1, cron.payloadBytes())));
        }
    }

    private long jitter(Definition definition) {
        // Whatever somebody has written into the table.
        long most = Math.min(definition.jitterMillis(), LONGEST_JITTER.toMillis());
        return most == 0 ? 0 : random.nextLong(most + 1);
    }

    /** Who may take a run: the leader, if it can. */
    @Nullable
    String capability(Definition definition, Known knowing) {
        if (definition.target() == CronTarget.ANY_WORKER) {
            return definition.capability();
        }
        if (crons.handlers().named(definition.handler()) != null) {
            return JobEngine.LEADER;
        }
        return knowing.schedulers() ? JobEngine.SCHEDULER : definition.capability();
    }

    private CronSchedule schedule(Definition definition) {
        return schedules.computeIfAbsent(
                definition.expression() + " " + definition.zone(),
                text -> CronSchedule.of(definition.expression(), definition.zone()));
    }

    // Definitions -------------------------------------------------------------------------------------------

    /** Looks at what live nodes declare. Whatever goes wrong, crons are fired. */
    private void look(Leader leader) {
        try {
            reconcile(leader);
            takeUp(leader);
            letOthersTakeWhatWeCannot(leader);
            warn();
        } catch (DataAccessException e) {
            if (ServerFailure.caused(e)) {
                // Nothing can be fired either, and the loop reports that once.
                throw e;
            }
            log.warn(
                    "crons: could not bring them in line with what nodes declare; trying again", ErrorText.loggable(e));
        }
    }

    private void reconcile(Leader leader) {
        LiveSets live = store.liveSets();
        if (!live.complete()) {
            // Somebody is about to declare; it will say so.
            return;
        }
        if (live.digests().equals(reconciled) && orphanedSince.isEmpty()) {
            return;
        }
        var changes = new Changes();
        if (fenced(leader, () -> changes.make(live.digests()))) {
            reconciled = changes.complete ? live.digests() : null;
            changes.report();
        }
    }

    /** Says once what works, but perhaps not as it was meant. */
    private void warn() {
        long now = node.nanos();
        List<String> lasting = disputedSince.entrySet().stream()
                .filter(dispute -> now - dispute.getValue() > disputed.toNanos() && warnedOf.add(dispute.getKey()))
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
        if (!lasting.isEmpty()) {
            log.warn(
                    "crons {}: live builds have declared them differently for {} s, and the newest one counts. If these are"
                            + " different applications, give the crons different names",
                    Names.printable(lasting),
                    disputed.toSeconds());
        }
        List<String> running = jobs.cronsThatFillTheLeader(longRun);
        if (!running.isEmpty() && !full) {
            log.warn(
                    "crons {} have taken all slots of the leader for more than {} s; others wait. Give them a timeout,"
                            + " target = ANY_WORKER, or raise forge.cluster.cron.max-concurrent-jobs",
                    running,
                    longRun.toSeconds());
        }
        full = !running.isEmpty();
    }

    /** Crons that somebody could not read, and that this node can, or that were mended since. */
    private void takeUp(Leader leader) {
        fenced(leader, () -> {
            var advances = new ArrayList<Advance>();
            for (Stored cron : store.lockStopped()) {
                String name = cron.definition().name();
                try {
                    Instant next = schedule(cron.definition()).next(store.now());
                    if (next != null) {
                        advances.add(new Advance(name, next, null, null, null));
                    }
                } catch (IllegalArgumentException e) {
                    if (!Objects.equals(e.getMessage(), cron.problem())) {
                        advances.add(new Advance(name, null, null, null, e.getMessage()));
                    }
                }
            }
            if (!advances.isEmpty()) {
                store.advance(advances);
            }
        });
    }

    /**
     * Runs that only a leader could take that knows them, if that is not us: a former one has left them, now or whenever it
     * was declared dead.
     */
    private void letOthersTakeWhatWeCannot(Leader leader) {
        if (foreign.isEmpty()) {
            return;
        }
        var rerouted = new AtomicInteger();
        boolean made =
                fenced(leader, () -> rerouted.set(store.reroute(foreign, JobEngine.LEADER, JobEngine.SCHEDULER)));
        if (made && rerouted.get() > 0) {
            jobs.announce(JobPriority.NORMAL);
        }
    }

    /** What brings the table in line with what live builds declare. */
    private final class Changes {
        private final List<String> added = new ArrayList<>();
        private final List<String> altered = new ArrayList<>();
        private List<String> removed = List.of();
        private int gone;
        /** False if somebody has locked a cron that should change: another time. */
        private boolean complete = true;

        void make(Set<String> live) {
            Instant now = store.now();
            Map<String, Stored> stored = new HashMap<>();
            store.stored().forEach(cron -> stored.put(cron.definition().name(), cron));
            List<Definition> wanted = store.definitions(live);
            Set<String> differing = live.size() > 1 ? store.disputed(live) : Set.of();
            disputedSince.keySet().retainAll(differing);
            differing.forEach(name -> disputedSince.putIfAbsent(name, node.nanos()));
            removed = orphans(stored, wanted);
            if (!removed.isEmpty()) {
                gone = store.remove(removed);
            }
            put(wanted, stored, now);
            foreign = Stream.concat(wanted.stream(), stored.values().stream().map(Stored::definition))
                    .filter(cron -> cron.target() == CronTarget.LEADER)
                    .map(Definition::handler)
                    .filter(handler -> crons.handlers().named(handler) == null)
                    .collect(Collectors.toSet());
        }

        private void put(List<Definition> wanted, Map<String, Stored> stored, Instant now) {
            Set<String> free = store.lockFree(wanted.stream()
                    .filter(cron -> {
                        Stored former = stored.get(cron.name());
                        return former != null && !former.definition().equals(cron);
                    })
                    .map(Definition::name)
                    .toList());
            var put = new ArrayList<Scheduled>();
            for (Definition cron : wanted) {
                Stored former = stored.get(cron.name());
                try {
                    if (former == null) {
                        put.add(scheduled(cron, now));
                        added.add(cron.name());
                        warnOfJitter(cron, now);
                    } else if (!former.declared()) {
                        log.warn(
                                "cron {}: declared in code, but one of that name was made at run time, which stays",
                                Names.printable(cron.name()));
                    } else if (!former.definition().equals(cron) && !free.contains(cron.name())) {
                        complete = false;
                    } else if (!former.definition().equals(cron)) {
                        put.add(changed(former, cron, now));
                        warnOfJitter(cron, now);
                        altered.add(cron.name());
                    }
                } catch (IllegalArgumentException e) {
                    // Another build's: its zone may be too new for us.
                    log.error(
                            "cron {}: left as it is, this node cannot read it: {}",
                            Names.printable(cron.name()),
                            Names.printable(String.valueOf(e.getMessage())));
                }
            }
            if (!put.isEmpty()) {
                store.put(put);
            }
        }

        void report() {
            if (!added.isEmpty() || !altered.isEmpty() || gone > 0) {
                String changes = Stream.of(
                                change("added", added),
                                change("changed", altered),
                                change("removed", gone > 0 ? removed : List.of()))
                        .filter(change -> !change.isEmpty())
                        .collect(Collectors.joining(", "));
                log.info("crons: {}", changes);
            }
        }
    }

    private static String change(String verb, Collection<String> crons) {
        return crons.isEmpty() ? "" : verb + " " + Names.printable(crons);
    }

    private static List<String> names(List<Definition> crons) {
        return crons.stream().map(Definition::name).toList();
    }

    private Scheduled scheduled(Definition cron, Instant after) {
        return new Scheduled(cron, schedule(cron).next(after));
    }

    private void warnOfJitter(Definition cron, Instant now) {
        Instant next = schedule(cron).next(now);
        Instant after = next == null ? null : schedule(cron).next(next);
        if (cron.overlap() == Overlap.SKIP
                && after != null
                && Duration.between(next, after).toMillis() <= cron.jitterMillis()) {
            log.warn(
                    "cron {}: its jitter of {} ms reaches the next slot, which is skipped while the run waits to begin",
                    Names.printable(cron.name()),
                    cron.jitterMillis());
        }
    }

    private Scheduled changed(Stored former, Definition cron, Instant now) {
        if (former.hasSlotsOf(cron) && former.next() != null) {
            return new Scheduled(cron, former.next());
        }
        Scheduled changed = scheduled(cron, now);
        leaveOut(store, former, now, leadingTerm);
        return changed;
    }

    /** Writes into the ledger that slots which are due will not run, because the schedule is another one now. */
    void leaveOut(CronStore ledger, Stored former, Instant now, @Nullable Long term) {
        CronSchedule schedule;
        try {
            schedule = schedule(former.definition());
        } catch (IllegalArgumentException e) {
            // It had none, as far as anybody can tell.
            return;
        }
        var slots = new ArrayList<Slot>();
        Instant forgotten = now.minus(settings.retention);
        Instant slot = former.next();
        if (slot != null && slot.isBefore(forgotten)) {
            slot = schedule.next(forgotten);
        }
        while (slot != null && !slot.isAfter(now)) {
            slots.add(new Slot(
                    former.definition().name(), slot, Outcome.MISSED, "its schedule was changed", null, null, 0, null));
            slot = schedule.next(slot);
            if (slots.size() == LARGEST_BATCH || slot == null || slot.isAfter(now)) {
                ledger.record(slots, term);
                slots.clear();
            }
        }
    }

    /** Declared crons that no live build declares, and has not for a while: a service that restarts is back in a moment. */
    private List<String> orphans(Map<String, Stored> stored, List<Definition> wanted) {
        Set<String> orphans = stored.values().stream()
                .filter(cron -> cron.declared() && !cron.paused())
                .map(cron -> cron.definition().name())
                .collect(Collectors.toSet());
        names(wanted).forEach(orphans::remove);
        long now = node.nanos();
        orphanedSince.keySet().retainAll(orphans);
        orphans.forEach(name -> orphanedSince.putIfAbsent(name, now));
        return orphanedSince.entrySet().stream()
                .filter(orphan -> now - orphan.getValue() > orphaned.toNanos())
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
    }

    /** Deletes what was kept long enough. */
    public void cleanUp() {
        store.keepSets(store.liveSets().digests(), REMEMBERED);
        purge.deleteAll(limit -> store.purge(settings.retention, limit));
    }

    @Override
    public List<String> summary() {
        return crons.all().isEmpty() ? List.of() : List.of("Crons: " + names());
    }

    // For others -------------------------------------------------------------------------------------------

    Settings settings() {
        return settings;
    }

    /** The names of the crons that are declared here. */
    public Set<String> names() {
        return crons.all().keySet();
    }

    /**
     * Demands an expression that fires, and a zone; answers the expression as it is stored.
     *
     * @throws IllegalArgumentException saying what is wrong
     */
    public static String requireSchedule(String expression, String zone) {
        CronSchedule.of(expression, zone);
        return CronSchedule.normal(expression);
    }

    // A test need not wait.
    void removeOrphansAfter(Duration patience) {
        orphaned = patience;
    }

    void warnAfter(Duration patience) {
        disputed = patience;
        longRun = patience;
    }

    void tryAgainAfter(Duration patience) {
        leftAloneFor = patience;
    }
}

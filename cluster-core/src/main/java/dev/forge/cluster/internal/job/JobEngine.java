package dev.forge.cluster.internal.job;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.database.TransientFailure;
import dev.forge.cluster.internal.job.JobStore.Recovered;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PurgeBatch;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * All that a node does about jobs: its {@link Worker}, if it is one; the sweeper, if it leads the scheduler role; the
 * house-keeping, if it leads the log_compactor role; and the news that it spreads and hears.
 */
public final class JobEngine implements NodeComponent {

    /** The capability that only the leader of the scheduler role offers. */
    public static final String LEADER = "@leader";
    /** The capability that every node offers that may lead the scheduler role. */
    public static final String SCHEDULER = "@scheduler";

    /** Work was enqueued, or came back. */
    static final String WORK = "work ";
    /** A job was called off. */
    static final String CANCELLED = "cancelled ";

    private static final Logger log = GuardedLogger.of(JobEngine.class);
    private static final Duration ANNOUNCE = Duration.ofMillis(20);
    private static final Duration ANNOUNCE_LATER = Duration.ofMillis(250);
    private static final Duration ANNOUNCE_AGAIN = Duration.ofMillis(500);
    private static final Duration HOUR = Duration.ofHours(1);
    private static final Duration OVERLOADED_FOR = Duration.ofSeconds(5);
    private static final double OVERLOADED = 0.9;
    private static final Duration LOAD_CHECK = Duration.ofSeconds(1);
    private static final int PURGE_BATCH = 5_000;
    private static final long DEAD_ROWS = 20_000;
    private static final int SUSPICIOUS_RECOVERIES = 2;
    /** So many statements of one sweep may fail; the next sweep goes on. */
    private static final int MOST_SWEEP_FAILURES = 100;
    /** How many names a log line lists. */
    private static final int LISTED_NAMES = 20;
    /** More than clocks drift, and than a statement takes, between two sweeps. */
    private static final Duration CLOCK_STEP = Duration.ofSeconds(3);

    private final Node node;
    private final WorkerSettings settings;
    private final JobHandlers handlers;
    private final JobMonitor monitor;
    private final JobStore jobs;
    private final JobStore heldByOthers;
    private final JobKeeping keeping;
    private final JobKeeping direct;
    private final boolean working;
    private final @Nullable Worker worker;
    private final StuckHandlers stuckHandlers;
    private final ClusterCoordinator coordinator;
    private final Notifications notifications;

    /** The highest priority of what is to be announced; null: nothing is. */
    private final AtomicReference<@Nullable JobPriority> unannounced = new AtomicReference<>();

    private final PurgeBatch purge = new PurgeBatch("finished jobs", PURGE_BATCH, this::nanos);

    private final NodeLoop announcements = NodeLoop.of("announce", this::untilNews, this::sendNews);

    private volatile long announceNotBefore;
    private volatile long overloadedSince;
    private volatile boolean overloaded;
    private volatile long graceUntil;
    private volatile long deadAfterVacuum;
    private volatile long lastSweep;
    /** How far the database's clock was ahead of this node's monotonic one at the last sweep. */
    private @Nullable Duration clockOffset;

    private volatile @Nullable OffsetDateTime serverStart;
    /** A row that the sweeper cannot write is in the log already. */
    private volatile boolean sweepReported;

    /**
     * What the engine works with.
     *
     * @param application the data source of handlers' own transactions
     * @param coordinator carries news between nodes; null: NOTIFY
     * @param maxBytes how large a payload, a result or a checkpoint may be
     */
    public record Tools(
            DataSource application,
            PayloadCodec codec,
            JobMonitor monitor,
            @Nullable ClusterCoordinator coordinator,
            int maxBytes) {

        public Tools {
            monitor = GuardedMonitor.of(monitor);
        }
    }

    /** @param laneOf which lane runs jobs of a name */
    public JobEngine(
            Node node, WorkerSettings settings, JobHandlers handlers, Tools tools, Function<String, String> laneOf) {
        this.node = node;
        this.settings = settings;
        this.handlers = handlers;
        this.monitor = tools.monitor;
        Node.Resources resources = node.resources();
        this.jobs = new JobStore(resources.schema(), resources.control());
        this.heldByOthers = new JobStore(resources.schema(), node.membership());
        this.notifications = new Notifications(jobs::notifyOthers);
        this.keeping = new JobKeeping(resources.schema(), resources.control());
        this.direct = new JobKeeping(resources.schema(), resources.direct());
        this.coordinator = tools.coordinator != null ? tools.coordinator : new Notify();
        this.working = isWorker();
        List<Claimer.Intake> intakes = new ArrayList<>(working ? workersIntakes(laneOf) : List.of());
        if (node.settings().presence().isCandidate()) {
            intakes.addAll(leadersIntakes());
        }
        var setup = new Worker.Setup(
                settings,
                handlers,
                new Worker.Stores(jobs, new JobStore(resources.schema(), tools.application)),
                new PayloadJson(tools.codec, tools.maxBytes),
                monitor);
        this.worker = intakes.isEmpty() ? null : new Worker(setup, new Host(), intakes);
        this.stuckHandlers = worker == null ? new StuckHandlers(node::nanos) : worker.stuckHandlers();
        coordinator.registerWakeupListener(this::wakeWorker);
    }

    private boolean isWorker() {
        NodeSettings.Presence presence = node.settings().presence();
        return presence.roles().contains(NodeRole.WORKER) && presence.mode() != NodeMode.OBSERVER;
    }

    /** What a worker takes: the executors' names, with the capabilities that it offers, unless it is to be alone and is not. */
    private List<Claimer.Intake> workersIntakes(Function<String, String> laneOf) {
        var capabilities = new ArrayList<>(node.settings().presence().capabilities());
        capabilities.add("");
        return settings.lanes().stream()
                .map(lane -> new Claimer.Intake(
                        lane,
                        () -> handlers.names().stream()
                                .filter(name -> laneOf.apply(name).equals(lane.name()))
                                .toList(),
                        List.copyOf(capabilities),
                        () -> !isCrowded()))
                .toList();
    }

    /** What a node takes that may lead, worker or not: the runs of crons. */
    private List<Claimer.Intake> leadersIntakes() {
        return List.of(
                // Not while a predecessor may still be at it: what a run does besides fenced writes is not fenced.
                leadersIntake(LEADER, () -> node.elector().isUndisputed(Leadership.SCHEDULER)),
                leadersIntake(SCHEDULER, () -> true));
    }

    private Claimer.Intake leadersIntake(String capability, BooleanSupplier mayClaim) {
        return new Claimer.Intake(
                new WorkerSettings.LaneSettings("cron" + capability, settings.cronSlots(), 0, false),
                () -> handlers.ofLeader().keySet(),
                List.of(capability),
                mayClaim);
    }

    // News --------------------------------------------------------------------------------------------------

    /**
     * There is work: our own worker looks at once, the others as soon as they hear of it. Who calls does not wait for that,
     * nor hear of it if it fails.
     */
    public void announce(JobPriority priority) {
        wakeWorker();
        announceToOthers(priority);
    }

    /** Jobs of that name were enqueued and are committed. A thread of ours that would not take them is left alone. */
    void announceEnqueued(String name, JobPriority priority) {
        if (working && handlers.named(name) != null) {
            wakeWorker();
        }
        announceToOthers(priority);
    }

    private void announceToOthers(JobPriority priority) {
        if (unannounced.getAndAccumulate(priority, JobEngine::higher) == null) {
            announcements.wake();
        }
    }

    private static JobPriority higher(@Nullable JobPriority one, JobPriority other) {
        return one == null || one.compareTo(other) < 0 ? other : one;
    }

    /** A job was called off: whoever runs it should hear of it. */
    public void announceCancelled(UUID job) {
        if (worker != null) {
            worker.doubt(job);
            worker.noteSoon();
        }
        notifications.send(CANCELLED + job);
    }

    /** Says something to all nodes; they hear it, or find out by themselves. */
    public void tell(String news) {
        notifications.send(news);
    }

    private void wakeWorker() {
        if (worker != null) {
            worker.wake();
        }
    }

    @Override
    public void heard(String news) {
        if (news.startsWith(WORK) && !news.endsWith(String.valueOf(node.id()))) {
            wakeWorker();
        } else if (news.startsWith(CANCELLED) && worker != null) {
            // On the session's thread: nothing here may wait.
            worker.doubt(UUID.fromString(news.substring(CANCELLED.length())));
            worker.noteSoon();
        }
    }

    /** NOTIFY on a connection of ours, never in the enqueuer's transaction. */
    private final class Notify implements ClusterCoordinator {

        @Override
        public void notifyNewWork(JobPriority priority) {
            jobs.notifyOthers(WORK + node.id());
        }

        @Override
        public void registerWakeupListener(Runnable listener) {
            // heard() wakes it.
        }

        @Override
        public boolean isConnected() {
            return node.isListening();
        }
    }

    private void sendNews() {
        if (node.isAlone() || !untilNews().isZero()) {
            return;
        }
        JobPriority highest = unannounced.getAndSet(null);
        if (highest == null) {
            return;
        }
        announceNotBefore = nanos() + ANNOUNCE.toNanos();
        try {
            coordinator.notifyNewWork(highest);
        } catch (RuntimeException e) {
            // It is still to be said.
            announceNotBefore = nanos() + ANNOUNCE_AGAIN.toNanos();
            unannounced.accumulateAndGet(highest, JobEngine::higher);
            throw e;
        }
    }

    private Duration untilNews() {
        if (unannounced.get() == null) {
            return HOUR;
        }
        // Nobody is there to be told; who comes may have looked before there was work.
        return node.isAlone() ? ANNOUNCE_LATER : Duration.ofNanos(Math.max(0, announceNotBefore - nanos()));
    }

    // Life --------------------------------------------------------------------------------------------------

    @Override
    public Collection<String> handlers() {
        return handlers.names();
    }

    @Override
    public List<NodeLoop> loops() {
        var loops = new ArrayList<NodeLoop>();
        loops.add(NodeLoop.of("sweep", settings.keeping()::sweep, this::sweep));
        loops.add(NodeLoop.cleanUp("clean-up-jobs", this::cleanUp));
        loops.add(announcements);
        if (worker != null) {
            loops.addAll(worker.loops());
            loops.add(NodeLoop.of("watch-load", () -> LOAD_CHECK, this::watchLoad));
        }
        return loops;
    }

    @Override
    public int load() {
        return worker == null ? 0 : worker.load();
    }

    @Override
    public List<String> stuck() {
        return worker == null ? List.of() : worker.stuck();
    }

    /**
     * What keeps this node from claiming jobs, if it has failed several times in a row although the database answers; null if
     * nothing does.
     */
    public @Nullable String claimProblem() {
        return worker == null || !node.isInContact() ? null : worker.claimProblem();
    }

    /** How many times this node could not read a job that it had claimed. */
    public int unreadableJobs() {
        return worker == null ? 0 : worker.unreadable();
    }

    @Override
    public int slots() {
        return isWorking()
                ? settings.lanes().stream()
                        .mapToInt(lane -> lane.slots().getAsInt())
                        .sum()
                : 0;
    }

    @Override
    public void begin() {
        long now = nanos();
        announceNotBefore = now;
        overloadedSince = now;
        overloaded = false;
        graceUntil = now + settings.keeping().grace().toNanos();
        lastSweep = now;
        if (worker != null) {
            worker.begin();
        }
        warnOfOrphans();
    }

    @Override
    public List<String> summary() {
        var names = new TreeSet<>(handlers.names());
        names.removeAll(handlers.ofLeader().keySet());
        names.removeIf(name -> handlers.ownerOf(name).isPresent());
        return working && !names.isEmpty()
                ? List.of("Jobs: %s on executors %s".formatted(names, executors()))
                : List.of();
    }

    private List<String> prefixes() {
        return handlers.owned().stream().map(OwnedJobs::prefix).toList();
    }

    private void warnOfOrphans() {
        try {
            // Their owners report jobs that have no handler themselves.
            JobKeeping.FewNames orphans = keeping.orphanedNames(LISTED_NAMES, prefixes());
            if (!orphans.first().isEmpty()) {
                var counts = new TreeMap<String, Long>();
                orphans.first().forEach((name, count) -> counts.merge(Names.printable(name), count, Long::sum));
                log.warn(
                        "No live node has a handler for these pending jobs: {}{}. If a job was renamed, give its handler the"
                                + " old name: @ClusterJob(aliases = \"...\").",
                        counts,
                        orphans.more() == 0 ? "" : " and %d more".formatted(orphans.more()));
            }
        } catch (DataAccessException e) {
            log.debug("could not look for jobs that nobody knows", e);
        }
    }

    @Override
    public void quiesce() {
        if (worker != null) {
            worker.quiesce();
        }
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        return worker == null || worker.awaitIdle(patience);
    }

    @Override
    public void release() {
        if (worker != null) {
            worker.release();
        }
    }

    @Override
    public void end() throws InterruptedException {
        if (worker != null) {
            worker.end();
        }
    }

    @Override
    public void lost() {
        if (worker != null) {
            worker.lost();
        }
    }

    @Override
    public void died(UUID dead) {
        wakeWorker();
    }

    @Override
    public Runnable releaseHeldByDead(UUID dead) {
        List<Recovered> recovered =
                heldByOthers.recoverFrom(dead, settings.leases().crash());
        return () -> recovered.forEach(this::report);
    }

    // Duties ------------------------------------------------------------------------------------------------

    private void watchLoad() {
        long now = nanos();
        Double cpu = node.settings().presence().load().get().cpu();
        boolean high = cpu != null && cpu > OVERLOADED;
        if (!high) {
            overloadedSince = now;
        }
        boolean over = now - overloadedSince >= OVERLOADED_FOR.toNanos();
        if (over != overloaded) {
            overloaded = over;
            log.info(over ? "overloaded: claims for half of its slots only" : "no longer overloaded");
            Objects.requireNonNull(worker).throttle(over);
        }
    }

    /** One look for jobs that their nodes have given up or lost. */
    void sweep() {
        long now = nanos();
        OffsetDateTime started = node.serverStart();
        boolean gap =
                now - lastSweep > settings.keeping().sweep().multipliedBy(3).toNanos();
        if (gap || !Objects.equals(started, serverStart)) {
            // Nobody could renew anything meanwhile.
            graceUntil = Math.max(graceUntil, now + settings.keeping().grace().toNanos());
        }
        serverStart = started;
        lastSweep = now;
        // Followers look at the clock, too: the next leader has to know of a step before its first term.
        if (hasClockStepped()) {
            log.warn(
                    "The database's clock was set forward by more than {} s. Leases of jobs count again after"
                            + " forge.cluster.sweep.startup-grace.",
                    CLOCK_STEP.toSeconds());
            graceUntil = Math.max(graceUntil, now + settings.keeping().grace().toNanos());
        }
        if (!node.elector().isLeader(Leadership.SCHEDULER)) {
            return;
        }
        List<Recovered> recovered = sweepJobs(now - graceUntil < 0);
        recovered.forEach(this::report);
        if (!recovered.isEmpty()) {
            announce(JobPriority.NORMAL);
        }
        if (jobs.freeSuccessors() > 0) {
            announce(JobPriority.NORMAL);
        }
    }

    private List<Recovered> sweepJobs(boolean grace) {
        WorkerSettings.Leases leases = settings.leases();
        try {
            List<Recovered> recovered = jobs.sweep(leases.crash(), leases.claimStart(), grace);
            sweepReported = false;
            return recovered;
        } catch (DataAccessException e) {
            if (TransientFailure.caused(e)) {
                throw e;
            }
            // One row that cannot be written must not keep all others on nodes that are gone.
            var recovered = new ArrayList<Recovered>();
            sweepApart(jobs.overdue(leases.claimStart(), grace), grace, recovered, new AtomicInteger());
            return recovered;
        }
    }

    private void sweepApart(List<UUID> overdue, boolean grace, List<Recovered> recovered, AtomicInteger failures) {
        if (overdue.isEmpty() || failures.get() > MOST_SWEEP_FAILURES) {
            return;
        }
        WorkerSettings.Leases leases = settings.leases();
        try {
            recovered.addAll(jobs.sweep(leases.crash(), leases.claimStart(), grace, overdue));
        } catch (DataAccessException e) {
            failures.incrementAndGet();
            if (TransientFailure.caused(e)) {
                throw e;
            }
            if (overdue.size() > 1) {
                int half = overdue.size() / 2;
                sweepApart(overdue.subList(0, half), grace, recovered, failures);
                sweepApart(overdue.subList(half, overdue.size()), grace, recovered, failures);
            } else if (!sweepReported) {
                sweepReported = true;
                log.warn(
                        "Job {}: the database refuses to take it from a node that is gone; trying again. Other jobs are not affected.",
                        overdue.get(0),
                        ErrorText.loggable(e));
            }
        }
    }

    /** Whether leases have run out by a step of the clock, and not because nobody renewed them. */
    private boolean hasClockStepped() {
        Duration former = clockOffset;
        Instant database = jobs.clock();
        Duration offset = Duration.between(Instant.EPOCH, database).minusNanos(nanos());
        clockOffset = offset;
        return former != null && offset.minus(former).compareTo(CLOCK_STEP) > 0;
    }

    private void report(Recovered job) {
        monitor.recovered(job.name());
        if (job.status() != JobStatus.PENDING) {
            log.warn(
                    "job {} {}: {}, its nodes ended under it {} times",
                    Names.printable(job.name()),
                    job.id(),
                    job.status(),
                    job.recoveries());
            return;
        }
        log.warn(
                "job {} {}: taken from node {}, last sign of life {} ms ago",
                Names.printable(job.name()),
                job.id(),
                job.node(),
                job.silentMillis());
        if (job.recoveries() >= SUSPICIOUS_RECOVERIES) {
            log.warn(
                    "job {} {}: recovered {} times; does it bring its node down, is forge.cluster.job.lease-duration ({}) too"
                            + " short, or are the nodes overloaded?",
                    Names.printable(job.name()),
                    job.id(),
                    job.recoveries(),
                    settings.leases().duration());
        }
    }

    /** Deletes what was kept long enough, and cleans up after it. */
    public void cleanUp() {
        String awaited = handlers.owned().stream()
                .map(owned -> "(" + owned.awaitedCondition() + ")")
                .collect(Collectors.joining(" OR "));
        purge.deleteAll(limit ->
                keeping.purge(settings.keeping().completed(), settings.keeping().failed(), awaited, limit));
        long dead = keeping.deadRows();
        // While a snapshot somewhere holds them, no vacuum removes them.
        boolean inVain = deadAfterVacuum > DEAD_ROWS && dead < 2 * deadAfterVacuum;
        if (dead > DEAD_ROWS && !inVain) {
            try {
                // On a connection of its own: it takes its time.
                direct.vacuum();
                deadAfterVacuum = keeping.deadRows();
            } catch (DataAccessException e) {
                log.debug("could not vacuum; autovacuum will", e);
            }
        }
    }

    // For people --------------------------------------------------------------------------------------------

    /** Whether this node is a worker. */
    public boolean isWorking() {
        return working;
    }

    /** Whether it was told to be the only worker, and is not: then it takes nothing. */
    public boolean isCrowded() {
        return working && !settings.claiming() && node.liveWorkers() > 1;
    }

    /** Slots and jobs by executor; empty if this node is no worker. */
    public Map<String, Map<String, Integer>> lanes() {
        if (!working || worker == null) {
            return Map.of();
        }
        var lanes = new LinkedHashMap<>(worker.lanes());
        lanes.keySet().retainAll(executors());
        return lanes;
    }

    /** What has taken all slots that a leader has for crons for longer than that; empty if there is room. */
    public List<String> cronsThatFillTheLeader(Duration time) {
        List<String> names = worker == null ? List.of() : worker.runningFor(time, LEADER);
        return names.size() < settings.cronSlots().getAsInt() ? List.of() : names;
    }

    /** The names of the executors. */
    public List<String> executors() {
        return settings.lanes().stream().map(WorkerSettings.LaneSettings::name).toList();
    }

    /** Whether it hears of work at present; if not, it polls. */
    public boolean hearsOfWork() {
        return coordinator.isConnected();
    }

    /** Handlers of this node that were told to stop and ignore it, the oldest first. */
    public List<StuckHandler> stuckHandlers() {
        return stuckHandlersWatch().stuck();
    }

    public StuckHandlers stuckHandlersWatch() {
        return stuckHandlers;
    }

    /** Whether it takes less because the machine is overloaded. */
    public boolean isOverloaded() {
        return overloaded;
    }

    /** The names of jobs this node has handlers for. */
    public Set<String> names() {
        return handlers.names();
    }

    private long nanos() {
        return node.nanos();
    }

    private final class Host implements Worker.Host {

        @Override
        public @Nullable UUID claimant() {
            return node.state() == Node.State.RUNNING && node.isInContact() && node.isTrusted() ? node.id() : null;
        }

        @Override
        public boolean isTrusted() {
            return node.isTrusted();
        }

        @Override
        public long nanos() {
            return node.nanos();
        }

        @Override
        public String nodeName() {
            return node.identity().name();
        }

        @Override
        public void introduce() {
            Mdc.put(node.id(), node.identity());
        }

        @Override
        public void cameBack() {
            if (node.state() == Node.State.RUNNING) {
                // A look finds out when it is due.
                wakeWorker();
            } else {
                announce(JobPriority.NORMAL);
            }
        }

        @Override
        public void freed() {
            announce(JobPriority.NORMAL);
        }
    }
}

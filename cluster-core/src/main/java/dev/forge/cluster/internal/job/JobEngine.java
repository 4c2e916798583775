// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.database.NotificationChannel;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.claim.Lane;
import dev.forge.cluster.internal.job.claim.LaneSelections;
import dev.forge.cluster.internal.job.claim.OverloadProtection;
import dev.forge.cluster.internal.job.claim.Worker;
import dev.forge.cluster.internal.job.enqueue.JobAnnouncements;
import dev.forge.cluster.internal.job.enqueue.JobNews;
import dev.forge.cluster.internal.job.follow.JobBatchKeeper;
import dev.forge.cluster.internal.job.follow.JobDependencyKeeper;
import dev.forge.cluster.internal.job.handler.GuardedMonitor;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.LeaderCapabilities;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.operate.PublishedExecutors;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobDependencyStore;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobRecoveryStore;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Recovered;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.JobStores;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.job.upkeep.JobHousekeeping;
import dev.forge.cluster.internal.job.upkeep.JobSweeper;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.Portion;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * The jobs of a node: its {@link Worker}, if it runs jobs; the {@link JobSweeper}, if it leads the scheduler role; the purge of
 * finished jobs, if it leads the log_compactor role; and the notifications that it sends and receives.
 */
public final class JobEngine implements NodeComponent {

    /** How notifications about cancelled jobs begin; the id of the job follows. */
    static final String CANCELLED = "cancelled ";

    /** The notification about changed limits. */
    static final String LIMITS = "limits";

    /** The notification that a job waits for others. */
    static final String WAITING = "waiting";

    /** The interval between sweeps after the death of a node, until a new leader must have made one. */
    private static final Duration AFTER_DEATH = Duration.ofMillis(500);

    private static final Logger log = GuardedLogger.of(JobEngine.class);

    private final Node node;
    private final WorkerSettings settings;
    private final JobHandlers handlers;
    private final JobRecoveryStore jobsOfDeadNodes;
    private final JobHousekeeping housekeeping;
    /** How many jobs are recovered in the transaction that declares their node dead; the sweep recovers the others. */
    private final Portion portionOfDeadNodes = new Portion(JobSweeper.LARGEST_BATCH);

    private final JobSweeper sweeper;
    private final NodeLoop sweeps = NodeLoop.of("sweep", this::untilSweep, this::sweep);
    private volatile long lastDeath;
    private final JobAnnouncements announcements;
    private final JobBatchKeeper batches;
    private final JobDependencyKeeper dependencies;
    private final boolean working;
    private final @Nullable Worker worker;
    private final @Nullable OverloadProtection overload;
    private final StuckHandlers stuckHandlers;
    private final Notifications notifications;
    private final Supplier<List<JobInterceptor>> interceptors;
    private final Function<String, String> laneOf;
    private final JobNews news = new News();
    private volatile Runnable announcementListener = () -> {};

    /**
     * What the engine depends on.
     *
     * @param application the data source of transactional handlers
     * @param interceptors those of handlers, the outermost first; called when all beans exist, so that they may depend on {@code Jobs}
     * @param coordinator carries notifications between nodes; null: NOTIFY
     * @param maxBytes the largest size of a payload, a result or a checkpoint
     */
    public record Dependencies(
            DataSource application,
            PayloadCodec codec,
            JobMonitor monitor,
            Supplier<List<JobInterceptor>> interceptors,
            @Nullable ClusterCoordinator coordinator,
            int maxBytes) {

        public Dependencies {
            monitor = GuardedMonitor.of(monitor);
        }
    }

    /** @param laneOf returns the lane for jobs of a name */
    public JobEngine(
            Node node,
            WorkerSettings settings,
            JobHandlers handlers,
            Dependencies dependencies,
            Function<String, String> laneOf) {
        this.node = node;
        this.lastDeath = node.nanos() - settings.keeping().sweep().toNanos();
        this.settings = settings;
        this.handlers = handlers;
        this.laneOf = laneOf;
        Schema schema = node.resources().schema();
        DataSource control = node.resources().control();
        JobStores stores = JobStores.of(schema, control, dependencies.application);
        this.jobsOfDeadNodes =
                new JobRecoveryStore(schema, node.resources().nodes().source());
        var channel = new NotificationChannel(schema, control);
        this.notifications = new Notifications(channel::send);
        this.housekeeping = new JobHousekeeping(node, settings.keeping(), handlers);
        this.interceptors = dependencies.interceptors;
        this.sweeper = new JobSweeper(node, settings, dependencies.monitor, stores.successors(), stores.recoveries());
        this.working = isWorker();
        var lanes = new LaneSelections(node, settings, handlers);
        List<Lane.Selection> selections = new ArrayList<>();
        if (working) {
            selections.addAll(lanes.ofWorker(laneOf, () -> !isCrowded()));
        }
        if (node.settings().presence().isCandidate()) {
            selections.addAll(lanes.ofLeader());
        }
        var workerDependencies = new WorkerParts(
                settings,
                handlers,
                stores,
                new PayloadJson(dependencies.codec, dependencies.maxBytes),
                dependencies.monitor,
                dependencies.interceptors);
        this.worker = selections.isEmpty() ? null : new Worker(workerDependencies, new ThisNode(), selections);
        this.overload = worker == null ? null : new OverloadProtection(node, worker);
        this.stuckHandlers = worker == null ? new StuckHandlers(node::nanos) : worker.stuckHandlers();
        this.announcements = new JobAnnouncements(node, channel, dependencies.coordinator, this::wakeWorker);
        this.batches = new JobBatchKeeper(node, stores.successors(), new BatchAnnouncer());
        this.dependencies = new JobDependencyKeeper(
                node, new JobDependencyStore(schema, control), () -> announce(JobPriority.NORMAL), batches::changed);
    }

    private boolean isWorker() {
        NodeSettings.Presence presence = node.settings().presence();
        return presence.roles().contains(NodeRole.WORKER) && presence.mode() != NodeMode.OBSERVER;
    }

    // Notifications -----------------------------------------------------------------------------------------

    /**
     * Announces pending jobs: the worker of this node searches immediately, those of other nodes as soon as they are notified. The
     * caller neither waits for that nor sees a failure.
     */
    public void announce(JobPriority priority) {
        wakeWorker();
        announcements.announce(priority, null);
        announcementListener.run();
    }

    /** Announces a cancelled job, so that the node that runs it stops its handler. */
    public void announceCancelled(UUID job) {
        if (worker != null) {
            worker.checkCancelled(job);
        }
        notifications.send(CANCELLED + job);
    }

    /** Announces changed limits. A node that is not notified reads them with its next sweep. */
    void announceLimits() {
        if (worker != null) {
            worker.limitsChanged();
        }
        notifications.send(LIMITS);
    }

    /** Sends a notification to all nodes. It may get lost, so that nodes must not rely on it. */
    public void notifyNodes(String message) {
        notifications.send(message);
    }

    private void wakeWorker() {
        if (worker != null) {
            worker.wake();
        }
    }

    @Override
    public void heard(String news) {
        JobAnnouncements.Received received = JobAnnouncements.received(news);
        if (received != null && worker != null) {
            if (!received.sender().equals(String.valueOf(node.id()))) {
                worker.wake(received.queue());
            }
        } else if (news.startsWith(CANCELLED) && worker != null) {
            // On the thread of the session: nothing here may block.
            worker.checkCancelled(UUID.fromString(news.substring(CANCELLED.length())));
        } else if (news.equals(LIMITS) && worker != null) {
            worker.limitsChanged();
        } else if (news.equals(WAITING)) {
            dependencies.begun();
        }
    }

    // Tests that drive a node -------------------------------------------------------------------------------

    /** Claims the next due job and runs it on this node; see {@link Worker#runNext}. */
    public List<UUID> runNext() throws InterruptedException {
        return worker == null ? List.of() : worker.runNext();
    }

    /** Claims a due job and runs it on this node; returns false if it cannot start now. */
    public boolean run(UUID job) throws InterruptedException {
        return worker != null && worker.run(job);
    }

    /** Calls a listener on the committing thread, whenever jobs of this node may have become due. */
    public void onAnnouncement(Runnable listener) {
        announcementListener = listener;
    }

    @Override
    public void timeMoved() {
        if (worker != null) {
            worker.timeMoved();
        }
    }

    // Life cycle --------------------------------------------------------------------------------------------

    @Override
    public Collection<String> handlers() {
        return handlers.names();
    }

    @Override
    public List<String> executorFacts() {
        return working ? PublishedExecutors.texts(settings.lanes(), handlers, laneOf) : List.of();
    }

    @Override
    public List<NodeLoop> loops() {
        var loops = new ArrayList<NodeLoop>();
        loops.add(sweeps);
        loops.add(NodeLoop.cleanUp("clean-up-jobs", this::cleanUp));
        // Apart: a vacuum may take half an hour.
        loops.add(NodeLoop.cleanUp("vacuum-jobs", housekeeping::vacuum));
        loops.add(announcements.loop());
        loops.add(batches.loop());
        loops.add(dependencies.loop());
        if (worker != null) {
            loops.addAll(worker.loops());
        }
        if (overload != null) {
            loops.add(overload.loop());
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
     * Returns what keeps this node from claiming jobs, if claims have failed several times in a row although the database is
     * reachable; otherwise null.
     */
    public @Nullable String claimProblem() {
        return worker == null || !node.contact().isRecent() ? null : worker.claimProblem();
    }

    /** Returns how many times this node could not read a job that it had claimed. */
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
    public void prepare() {
        // An interceptor that cannot be created fails the start, not the first job.
        log.debug("Interceptors of jobs: {}", interceptors.get().size());
        if (overload != null) {
            overload.begin();
        }
    }

    @Override
    public void begin() {
        announcements.begin();
        sweeper.begin();
        if (working) {
            // Before the first claim, which must obey them.
            housekeeping.declareLimits();
            announceLimits();
        }
        if (worker != null) {
            worker.begin();
        }
        housekeeping.warnOfOrphans();
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
        lastDeath = node.nanos();
        sweeps.wake();
        wakeWorker();
    }

    @Override
    public Runnable releaseHeldByDead(UUID dead) {
        int limit = portionOfDeadNodes.size();
        try {
            List<Recovered> recovered =
                    jobsOfDeadNodes.recoverFrom(dead, settings.leases().crash(), limit);
            portionOfDeadNodes.succeeded();
            return () -> sweeper.report(recovered);
        } catch (DataAccessException e) {
            // Otherwise a declaration that takes too long would be repeated for ever.
            portionOfDeadNodes.failed(limit);
            throw e;
        }
    }

    // Duties ------------------------------------------------------------------------------------------------

    JobAnnouncements announcements() {
        return announcements;
    }

    /** Returns the interval between sweeps; less after the death of a node, which may have led the sweeps. */
    private Duration untilSweep() {
        Duration interval = settings.keeping().sweep();
        boolean died = node.nanos() - lastDeath < interval.toNanos();
        return died && interval.compareTo(AFTER_DEATH) > 0 ? AFTER_DEATH : interval;
    }

    /** Makes one sweep. */
    public void sweep() {
        if (worker != null) {
            worker.limitsChanged();
        }
        Loop.each(
                () -> sweeper.sweep(() -> announce(JobPriority.NORMAL), sweeps::wake),
                dependencies::refresh,
                () -> ifLeader(batches::sweep),
                () -> ifLeader(dependencies::sweep));
    }

    private void ifLeader(Runnable duty) {
        if (node.elector().isLeader(Leadership.SCHEDULER)) {
            duty.run();
        }
    }

    /** Schedules a check of a batch that was changed, or of which a job has ended. */
    void batchChanged(UUID batch) {
        batches.changed(batch);
    }

    /** Deletes finished jobs whose retention has passed. */
    public void cleanUp() {
        housekeeping.cleanUp();
    }

    // State for health, metrics and the API -----------------------------------------------------------------

    /** Returns whether this node is a worker. */
    public boolean isWorking() {
        return working;
    }

    /** Returns whether this node must be the only worker but is not: then it claims nothing. */
    public boolean isCrowded() {
        return working && !settings.claiming() && node.peers().liveWorkers() > 1;
    }

    /** Returns the slots, the occupied ones and the jobs of each executor; empty if this node is no worker. */
    public Map<String, Map<String, Integer>> lanes() {
        if (!working || worker == null) {
            return Map.of();
        }
        var lanes = new LinkedHashMap<>(worker.lanes());
        lanes.keySet().retainAll(executors());
        return lanes;
    }

    /** Returns the crons that have occupied all cron slots of the leader for longer than that; empty if a slot is free. */
    public List<String> cronsOccupyingTheLeader(Duration time) {
        List<String> names = worker == null ? List.of() : worker.runningFor(time, LeaderCapabilities.LEADER);
        return names.size() < settings.cronSlots().getAsInt() ? List.of() : names;
    }

    /** Returns the name of the executor that jobs of a name have on this node, or would have if it were a worker. */
    public String executorOf(String name) {
        return laneOf.apply(name);
    }

    /** Returns the names of the executors. */
    public List<String> executors() {
        return settings.lanes().stream().map(WorkerSettings.LaneSettings::name).toList();
    }

    /** Returns whether this node receives wake-ups at present; otherwise it polls. */
    public boolean receivesWakeups() {
        return announcements.isConnected();
    }

    /** Returns the handlers of this node that ignore the request to stop, the oldest first. */
    public List<StuckHandler> stuckHandlers() {
        return stuckHandlersWatch().stuck();
    }

    /** Returns the watch over handlers that ignore the request to stop. */
    public StuckHandlers stuckHandlersWatch() {
        return stuckHandlers;
    }

    /** Returns whether this node claims less because its CPU is overloaded. */
    public boolean isOverloaded() {
        return overload != null && overload.isActive();
    }

    /** Returns the names of jobs that this node has handlers for. */
    public Set<String> names() {
        return handlers.names();
    }

    private final class ThisNode implements WorkerNode {

        @Override
        public @Nullable UUID claimingNode() {
            return node.state() == Node.State.RUNNING
                            && node.contact().isRecent()
                            && node.membership().isTrusted()
                    ? node.id()
                    : null;
        }

        @Override
        public boolean isTrusted() {
            return node.membership().isTrusted();
        }

        @Override
        public long nanos() {
            return node.nanos();
        }

        @Override
        public boolean isStepped() {
            return node.isStepped();
        }

        @Override
        public boolean hasContactSince(long nanos) {
            return node.contact().hasAnsweredSince(nanos);
        }

        @Override
        public String nodeName() {
            return node.identity().name();
        }

        @Override
        public void setLogContext() {
            Mdc.put(node.id(), node.identity());
        }

        @Override
        public void jobReturned() {
            if (node.state() == Node.State.RUNNING) {
                // A search finds out when it is due.
                wakeWorker();
            } else {
                announce(JobPriority.NORMAL);
            }
        }

        @Override
        public void jobsReleased() {
            announce(JobPriority.NORMAL);
        }

        @Override
        public void ended(Claimed job) {
            dependencies.ended(job.id());
            UUID batch = job.batch();
            if (batch != null) {
                batches.changed(batch);
            }
        }
    }

    /** Returns what calls of the API tell after their commits. */
    JobNews news() {
        return news;
    }

    private final class News implements JobNews {

        @Override
        public void enqueued(NewJob job) {
            Queue queue = job.isDueAtOnce() ? job.queue() : null;
            if (working && worker != null && handlers.named(job.name()) != null) {
                worker.wake(queue);
            }
            announcements.announce(JobPriority.of(job.priority()), queue);
            announcementListener.run();
        }

        @Override
        public void waiting(Collection<UUID> jobs) {
            jobs.forEach(dependencies::waiting);
            notifications.send(WAITING);
        }

        @Override
        public void pending() {
            announce(JobPriority.NORMAL);
        }

        @Override
        public void cancelled(UUID job, @Nullable UUID batch, boolean held) {
            dependencies.ended(job);
            if (batch != null) {
                batches.changed(batch);
            }
            if (held) {
                announceCancelled(job);
            }
        }
    }

    private final class BatchAnnouncer implements JobBatchKeeper.Announcer {

        @Override
        public void announce(JobPriority priority) {
            JobEngine.this.announce(priority);
        }

        @Override
        public void cancelled(CancelledJob job) {
            dependencies.ended(job.id());
            if (job.held()) {
                announceCancelled(job.id());
            }
        }
    }
}

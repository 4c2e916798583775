package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.database.ConnectionLoss;
import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.ServerFailure;
import dev.forge.cluster.internal.leader.BlockedFences;
import dev.forge.cluster.internal.leader.Candidate;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.leader.LeaderStore.Ground;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeSettings.Election;
import dev.forge.cluster.internal.node.NodeStore.Introduction;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.node.NodeStore.Sighting;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LostLeadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.scheduling.TaskScheduler;

/**
 * This process as a member of the cluster. Alone decides which loops run, and in what order they start and stop.
 *
 * <p>A member's id lives as long as its membership: leaving and joining again, or being declared dead while alive, makes
 * a new id, so that nothing which the former one held can be mistaken for held.
 */
public final class Node implements Candidate {

    private static final Logger log = GuardedLogger.of(Node.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);
    private static final Duration CONNECT_PATIENCE = Duration.ofSeconds(15);
    private static final Duration SESSION_PATIENCE = Duration.ofSeconds(15);
    /**
     * The server frees the lock of a session that was cut off after seven seconds; the others wait as long again before
     * they give away what its node held.
     */
    private static final Duration TRUSTED_WITHOUT_CONTACT = Duration.ofSeconds(12);

    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration POLL = Duration.ofMillis(100);
    /** Looks at the others come several times a second; in a large cluster less often. */
    private static final Duration OUT_OF_REACH = Duration.ofSeconds(4);

    /** How soon to look again at somebody who is without its lock. */
    private static final Duration SECOND_LOOK = Duration.ofMillis(350);

    private static final Duration DEAD_RETENTION = Duration.ofHours(1);
    private static final int NODE_BATCH = 1_000;

    private final NodeSettings settings;
    public final Members members;
    private final TaskScheduler scheduler;
    private final Consumer<ClusterEvent> events;
    public final Pace pace = new Pace(System::nanoTime, RandomGenerator.getDefault());
    private final HeartbeatSchedule pulse;
    public final BlockedFences fences;
    public final Elector elector;
    private final Observer observer;
    private final @Nullable NodeSession session;
    private final List<NodeComponent> components = new CopyOnWriteArrayList<>();
    private final List<Loop> loops = new CopyOnWriteArrayList<>();
    private final List<Runnable> cleanUps = new CopyOnWriteArrayList<>();
    private final NodeLoop heartbeat;
    private final @Nullable NodeLoop elections;

    private final ReentrantLock lock = new ReentrantLock();
    private final ReentrantLock drainLock = new ReentrantLock();
    private final ReentrantLock beatLock = new ReentrantLock();
    private final Condition never = lock.newCondition();
    private volatile @Nullable UUID id;
    private volatile NodeIdentity identity;
    private volatile State state = State.STOPPED;
    private volatile long lastContact;
    private volatile long lastBeat;
    private volatile Duration trustedFor = Duration.ZERO;
    private volatile boolean candidateLive = true;
    private volatile int liveWorkers;
    private volatile boolean alone;
    private volatile boolean leaving;
    private volatile boolean stopping;
    private volatile boolean suspicious;
    private volatile LostLeadership onLostLeadership = LostLeadership.NOT_READY;
    private volatile Runnable exit = () -> {};
    private volatile Runnable writableAgain = () -> {};
    /** Whether the last heartbeat failed because the database, or the session that it has given us, is read-only. */
    private volatile boolean readOnly;
    /** Whether one did since the last that was written. */
    private volatile boolean wasReadOnly;

    private volatile boolean hasLed;
    private volatile @Nullable Long leadsNotSince;
    private volatile boolean missesLeadership;
    private volatile Duration untilElection = Duration.ofMillis(50);
    private volatile @Nullable Future<?> draining;
    /** Threads that were interrupted while they drain or stop this node. */
    private final Set<Thread> interrupted = ConcurrentHashMap.newKeySet();

    /** What a node is doing. */
    public enum State {
        /** Not a member. */
        STOPPED,
        /** A member at component. */
        RUNNING,
        /** A member that takes nothing new. */
        DRAINING
    }

    /**
     * Where members are kept.
     *
     * @param direct opens connections of its own for the session
     * @param control serves everything else
     */
    public record Members(
            Schema schema, DataSource direct, DataSource control, NodeStore nodes, NodeIdentityProvider identities) {}

    public Node(NodeSettings settings, Members members, TaskScheduler scheduler, Consumer<ClusterEvent> events) {
        this.settings = settings;
        this.members = members;
        this.scheduler = scheduler;
        this.events = events;
        this.identity = identity(members.identities);
        this.pulse = new HeartbeatSchedule(settings.heartbeat());
        Election election = settings.election();
        this.fences = new BlockedFences(scheduler.getClock(), pace::nanos);
        this.elector = new Elector(
                new Elector.Timing(
                        election.checkInterval(), election.lease(), election.renewInterval(), election.localDeadline()),
                election.ground(),
                pace,
                fences,
                events);
        this.observer = new Observer(
                members.nodes,
                pace,
                settings.detection().interval(),
                settings.presence().mode() != NodeMode.OBSERVER,
                new ObserverListener());
        this.session = election.ground() == Ground.LOCK
                ? new NodeSession(members.direct, members.schema, elector, pace::nanos, new SessionListener())
                : null;
        if (settings.presence().isCandidate()) {
            List.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                    .forEach(elector::join);
        }
        this.heartbeat = NodeLoop.of("heartbeat", () -> pulse.pause(hasSession()), this::beat);
        run(heartbeat);
        run(NodeLoop.of("observe", this::observationPause, this::observe));
        run(NodeLoop.cleanUp("clean-up-nodes", this::forgetDead));
        run(NodeLoop.of("watch-leadership", () -> WATCH, this::watchLeadership));
        if (session == null) {
            var store = new LeaderStore(members.schema, ControlConnections.urgent(members.control));
            this.elections = NodeLoop.of("elect", () -> untilElection, () -> elect(store));
            run(elections);
        } else {
            this.elections = null;
        }
    }

    private void watchLeadership() {
        elector.expireOverdue();
        watchOwnLeadership();
    }

    private void run(NodeLoop declared) {
        Runnable pass = () -> {
            if (!declared.isCleanUp() || elector.isLeader(Leadership.LOG_COMPACTOR)) {
                declared.pass();
            }
        };
        var loop = new Loop(
                declared.name(), declared.pause(), () -> named(pass), scheduler, pace::nanos, declared.patience());
        declared.runBy(loop);
        loops.add(loop);
        if (declared.isCleanUp()) {
            cleanUps.add(pass);
        }
    }

    /** Deletes old rows at once, if this node leads the role log_compactor; for tests, which do not wait for the loops. */
    public void cleanUp() {
        cleanUps.forEach(Runnable::run);
    }

    private void named(Runnable pass) {
        Mdc.put(id, identity);
        try {
            pass.run();
        } catch (RuntimeException e) {
            if (!stopping || !ConnectionLoss.caused(e)) {
                throw e;
            }
            // Nothing follows from it that signOff() does not say.
            log.debug("node {}: the database is out of reach while the node leaves", id, e);
        }
    }

    /** Joins the cluster; returns when the others can see this node. */
    public void start() {
        try {
            joinAndRun();
        } catch (RuntimeException e) {
            stop();
            despiteInterrupts(() -> {
                endSession();
                return true;
            });
            throw e;
        }
    }

    private void joinAndRun() {
        try {
            hasLed = false;
            components.forEach(NodeComponent::prepare);
            elector.compete(false);
            join(joining -> {});
            state = State.RUNNING;
            // The first look before anything else: who comes later is seen coming.
            observe();
            activate();
            loops.forEach(Loop::start);
            elector.compete(settings.presence().mayCompete());
            components.forEach(NodeComponent::begin);
            if (settings.presence().mode() == NodeMode.LEADER) {
                requireElection();
                // Not only with the next look: a leadership that is lost before it would go unnoticed.
                hasLed = true;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while joining the cluster", e);
        }
    }

    private void activate() {
        members.nodes.activate(requireId());
    }

    private UUID requireId() {
        UUID current = id;
        if (current == null) {
            throw new IllegalStateException("this node is not a member of the cluster now");
        }
        return current;
    }

    private void requireElection() throws InterruptedException {
        Duration patience = settings.election().lease().multipliedBy(3);
        if (!await(() -> elector.isLeader(Leadership.SCHEDULER), patience)) {
            String leader = nameOfLeader();
            throw new ClusterStartupException(
                    "forge.cluster.node.mode (leader): this node was not elected within %d s%s"
                            .formatted(patience.toSeconds(), leader == null ? "" : "; node %s leads".formatted(leader)),
                    leader == null
                            ? "Look for what keeps it from leading: \"No leader is elected\" in docs/reference/troubleshooting.md."
                            : "Stop that node, or set forge.cluster.node.mode=auto to stand by.");
        }
    }

    /** Name and id of the node that leads the scheduler role; null if none does, or nobody can be asked. */
    private @Nullable String nameOfLeader() {
        try {
            for (LeaderStore.Leader leader : new LeaderStore(members.schema, members.control).leaders()) {
                UUID leading = leader.node();
                if (leader.role().equals(Leadership.SCHEDULER) && leading != null) {
                    return "'%s' (%s)".formatted(members.nodes.nameOf(leading).orElse("?"), leading);
                }
            }
        } catch (DataAccessException e) {
            log.debug("node {}: could not find out who leads", id, e);
        }
        return null;
    }

    /**
     * Leaves the cluster: says that it drains, lets work finish, gives up what it leads, and goes. Others see it at
     * once, unless the database is out of reach: then when our deadlines pass.
     */
    public void stop() {
        if (id == null) {
            return;
        }
        stopping = true;
        try {
            despiteInterrupts(() -> {
                leave();
                return true;
            });
        } finally {
            stopping = false;
        }
    }

    /**
     * Does something that waits and writes. An interrupt of this thread, before or meanwhile, ends the waiting, but not the writing:
     * jobs are returned and the node is deregistered all the same. It is interrupted again afterwards.
     */
    private boolean despiteInterrupts(BooleanSupplier action) {
        noteInterrupt(Thread.interrupted());
        try {
            return action.getAsBoolean();
        } finally {
            noteInterrupt(Thread.interrupted());
            if (interrupted.remove(Thread.currentThread())) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void noteInterrupt(boolean whether) {
        if (whether) {
            interrupted.add(Thread.currentThread());
        }
    }

    private void leave() {
        drainOnce();
        // From here on nobody joins again: whatever the id is when the loops have ended, is the one that leaves.
        leaving = true;
        UUID resigning = id;
        if (session == null && resigning != null) {
            try {
                elector.resign(new LeaderStore(members.schema, members.control), () -> {}, resigning);
            } catch (RuntimeException e) {
                log.debug("node {}: could not resign; its leases will expire", resigning, e);
            }
        }
        endSession();
        elector.sessionLost();
        stopLoops();
        endWorks();
        UUID left = id;
        id = null;
        state = State.STOPPED;
        leaving = false;
        if (left != null) {
            signOff(left);
        }
    }

    private void endWorks() {
        for (NodeComponent component : components) {
            try {
                component.end();
            } catch (InterruptedException e) {
                noteInterrupt(true);
            }
        }
    }

    private void stopLoops() {
        long deadline = pace.nanos() + STOP_PATIENCE.toNanos();
        for (Loop loop : loops) {
            try {
                loop.stop(Duration.ofNanos(Math.max(0, deadline - pace.nanos())));
            } catch (InterruptedException e) {
                noteInterrupt(true);
            }
        }
    }

    private void signOff(UUID left) {
        if (!isInContact()) {
            unreachable(left);
            return;
        }
        try {
            members.nodes.remove(
                    left, leaving -> components.forEach(component -> component.releaseHeldByLeaving(leaving)));
        } catch (RuntimeException e) {
            if (ConnectionLoss.caused(e)) {
                unreachable(left);
            } else {
                log.warn("Could not deregister node {}. Other nodes will declare it dead.", left, e);
            }
        }
    }

    private static void unreachable(UUID left) {
        log.warn("Could not deregister node {}: database unreachable. Other nodes will declare it dead.", left);
    }

    private void endSession() {
        if (session != null) {
            try {
                session.stop();
            } catch (InterruptedException e) {
                noteInterrupt(true);
            }
        }
    }

    /**
     * Takes nothing new and lets work finish, up to the drain timeout; what is left then goes back. The node stays a
     * member, without leading anything. Answers whether it was at work until now.
     */
    public boolean drain() {
        return despiteInterrupts(this::drainOnce);
    }

    private boolean drainOnce() {
        // Held until it is done: who leaves while an ordered drain is under way waits for it here.
        drainLock.lock();
        try {
            if (state != State.RUNNING) {
                return false;
            }
            state = State.DRAINING;
            drainWork();
            return true;
        } finally {
            drainLock.unlock();
        }
    }

    private void drainWork() {
        elector.compete(false);
        UUID current = id;
        try {
            if (current != null) {
                members.nodes.drain(current);
            }
        } catch (DataAccessException e) {
            log.debug("node {}: could not say that it drains", current, e);
        }
        components.forEach(NodeComponent::quiesce);
        log.info(
                "Node {}: draining. Running jobs: {}; they may take {} to end (forge.cluster.shutdown.drain-timeout).",
                current,
                components.stream().mapToInt(NodeComponent::load).sum(),
                settings.drainTimeout());
        long begin = pace.nanos();
        int interrupted = awaitWork(begin + settings.drainTimeout().toNanos());
        log.info(
                "Node {}: drained in {}. Interrupted jobs: {}.",
                current,
                Duration.ofNanos(pace.nanos() - begin).truncatedTo(ChronoUnit.MILLIS),
                interrupted);
    }

    /** Waits for the end of all work until then; returns how many jobs were still under way and were interrupted. */
    private int awaitWork(long deadline) {
        int unfinished = 0;
        for (NodeComponent component : components) {
            boolean idle = false;
            try {
                boolean hurried = interrupted.contains(Thread.currentThread());
                long patience = hurried ? 0 : Math.max(0, deadline - pace.nanos());
                idle = component.awaitIdle(Duration.ofNanos(patience));
            } catch (InterruptedException e) {
                noteInterrupt(true);
            }
            if (!idle) {
                unfinished += component.load();
                component.release();
                noteInterrupt(Thread.interrupted());
            }
        }
        return unfinished;
    }

    /**
     * What a node of mode leader does that leads no more; before the node starts.
     *
     * @param exit closes the application and ends the process
     */
    public void onLostLeadership(LostLeadership reaction, Runnable exit) {
        this.onLostLeadership = reaction;
        this.exit = exit;
    }

    /**
     * What to do with the first heartbeat that was written after others had failed because the database was read-only;
     * before the node starts.
     */
    public void onWritableAgain(Runnable reaction) {
        this.writableAgain = reaction;
    }

    /** Whether the last heartbeat failed because the database, or the session that it has given us, is read-only. */
    public boolean isReadOnly() {
        return readOnly;
    }

    /** Whether this node must lead to be ready, and has not led for longer than an election takes. */
    public boolean isUnreadyWithoutLeadership() {
        return missesLeadership && onLostLeadership == LostLeadership.NOT_READY;
    }

    /** A lease is longer than an election takes: a leader that lost only its session leads again by then. */
    private void watchOwnLeadership() {
        if (settings.presence().mode() != NodeMode.LEADER || state != State.RUNNING || stopping) {
            leadsNotSince = null;
            missesLeadership = false;
            return;
        }
        if (elector.isLeader(Leadership.SCHEDULER)) {
            hasLed = true;
            leadsNotSince = null;
            if (missesLeadership) {
                missesLeadership = false;
                log.info("node {}: leads again", id);
            }
            return;
        }
        Long since = leadsNotSince;
        if (!hasLed) {
            // Start-up fails by itself if it is not elected.
            return;
        }
        if (since == null) {
            leadsNotSince = pace.nanos();
        } else if (!missesLeadership
                && pace.nanos() - since > settings.election().lease().toNanos()) {
            missesLeadership = true;
            log.warn(
                    "node {}: forge.cluster.node.mode (leader), but another node leads, or none can."
                            + " forge.cluster.node.on-lost-leadership ({}): {}",
                    id,
                    onLostLeadership.name().toLowerCase(Locale.ROOT).replace('_', '-'),
                    switch (onLostLeadership) {
                        case NOT_READY -> "this node is not ready until it leads again";
                        case STAND_BY -> "this node stands by";
                        case EXIT -> "this process ends";
                    });
            if (onLostLeadership == LostLeadership.EXIT) {
                exit.run();
            }
        }
    }

    /** How many loops there are: with as many threads none of them waits for another. */
    public int loops() {
        return loops.size();
    }

    /** Adds a component. Components start, drain and stop in the order of registration, which ends when the node starts. */
    public void register(NodeComponent component) {
        components.add(component);
        component.loops().forEach(this::run);
    }

    /** Returns one line for each kind of work that this node does, for the log. */
    public List<String> summary() {
        return components.stream()
                .flatMap(component -> component.summary().stream())
                .toList();
    }

    /** Runs an election at once. */
    public void electSoon() {
        if (elections != null) {
            elections.wake();
        }
    }

    /** Sends a heartbeat at once. */
    public void beatSoon() {
        heartbeat.wake();
    }

    /** Returns the reserved prefix that a name begins with, if there is one. */
    @Override
    public Optional<ReservedPrefix> reservedPrefix(String name) {
        return reservedPrefixes().stream()
                .filter(prefix -> prefix.matches(name))
                .findFirst();
    }

    /** Returns the beginnings of names that components of this node use for themselves. */
    public List<ReservedPrefix> reservedPrefixes() {
        return components.stream()
                .flatMap(component -> component.reservedPrefixes().stream())
                .toList();
    }

    /** Whether no other node can have declared this one dead yet, and given away what it holds. */
    public boolean isTrusted() {
        long now = pace.nanos();
        return id != null
                && now - lastBeat < trustedFor.toNanos()
                && now - lastContact < TRUSTED_WITHOUT_CONTACT.toNanos();
    }

    /** The id of the present membership; null while the node is not a member. */
    @Override
    public @Nullable UUID id() {
        return id;
    }

    /** Who the node says it is. */
    public NodeIdentity identity() {
        return identity;
    }

    /** What it is doing. */
    public State state() {
        return state;
    }

    /** Whether the database has answered lately. */
    public boolean isInContact() {
        Duration twoLooks = pace.longest(settings.detection().interval()).multipliedBy(2);
        return sinceLastContact().compareTo(twoLooks.compareTo(OUT_OF_REACH) > 0 ? twoLooks : OUT_OF_REACH) <= 0;
    }

    /** How long ago the database last took a heartbeat of this node, or answered a look at the others after one. */
    public Duration sinceLastContact() {
        return Duration.ofNanos(pace.nanos() - lastContact);
    }

    /** Whether any live node could lead. */
    public boolean hasLiveCandidate() {
        return candidateLive;
    }

    /** How many live nodes have the role worker. */
    public int liveWorkers() {
        return liveWorkers;
    }

    /** Whether the last look has shown no other node, not even a silent one. */
    public boolean isAlone() {
        return alone;
    }

    /** Loops that should run but have not completed a pass for much longer than their pause, by name. */
    public List<String> stuckLoops() {
        if (state == State.STOPPED) {
            return List.of();
        }
        Stream<String> session = this.session != null && this.session.isMissing(SESSION_PATIENCE)
                ? Stream.of("session")
                : Stream.empty();
        return Stream.of(
                        session,
                        loops.stream().filter(Loop::isStuck).map(Loop::name),
                        components.stream().flatMap(component -> component.stuck().stream()))
                .flatMap(names -> names)
                .sorted()
                .toList();
    }

    /** Which roles this node leads, without those of daemons. */
    public Set<String> rolesLed() {
        return elector.rolesHeld().stream().filter(elector::isOfApplication).collect(Collectors.toUnmodifiableSet());
    }

    /** Roles, also those of daemons, that this node leads without the advisory lock: another session holds that. */
    public Set<String> rolesLedWithoutLock() {
        return elector.rolesWithoutLock();
    }

    /** Roles whose fence this node could not take in time because another session keeps it locked; each with since when. */
    public Map<String, Instant> blockedFences() {
        return fences.byRole();
    }

    @Override
    public BlockedFences fences() {
        return fences;
    }

    /** The settings it was made with. */
    public NodeSettings settings() {
        return settings;
    }

    /** For what only this node sees. */
    public InstantSource clock() {
        return scheduler.getClock();
    }

    public long nanos() {
        return pace.nanos();
    }

    public Pace pace() {
        return pace;
    }

    /**
     * Returns the data source on which nodes are declared dead and deleted. Components release rows of such nodes by it, in the
     * same transaction.
     */
    public DataSource membership() {
        return members.nodes.source();
    }

    public Members members() {
        return members;
    }

    /** When the server was started, as last seen; null before the first look. */
    @Nullable
    public OffsetDateTime serverStart() {
        return observer.serverStart();
    }

    /** Calls the listener with each role that this node stands for, those of daemons left out, now and later. */
    public void onCandidacy(Consumer<String> listener) {
        elector.onJoin(listener);
    }

    @Override
    public Elector elector() {
        return elector;
    }

    @Override
    public boolean mayLead() {
        return settings.presence().isCandidate();
    }

    @Override
    public Duration lease() {
        return settings.election().lease();
    }

    /** The id under which this node may change the cluster. */
    public UUID requireMutable() {
        requireMayMutate();
        UUID current = id;
        if (current == null) {
            throw new ClusterNotReadyException(
                    "This node is not a member of the cluster: it has not joined yet, or it has left. It joins after all beans"
                            + " were created: call this from an ApplicationRunner or a method with"
                            + " @EventListener(ApplicationReadyEvent.class), not from a constructor or a @PostConstruct"
                            + " method.");
        }
        return current;
    }

    /** What needs no membership, only the right: requests that are under way while the node leaves still enqueue. */
    public void requireMayMutate() {
        if (!settings.presence().mayMutate()) {
            throw new MutationRefusedException(
                    settings.presence().mode() == NodeMode.OBSERVER
                            ? "This node may not change the cluster: forge.cluster.node.mode (observer). Call another node, or set another"
                                    + " mode."
                            : "This node may not change the cluster: forge.cluster.node.roles (%s) lacks function. Add it, or call a node"
                                            .formatted(settings.presence().roles().stream()
                                                    .map(role -> role.name().toLowerCase(Locale.ROOT))
                                                    .sorted()
                                                    .collect(Collectors.joining(",")))
                                    + " that has it.");
        }
    }

    private static NodeIdentity identity(NodeIdentityProvider identities) {
        NodeIdentity identity = identities.identity();
        try {
            Names.require("node id", identity.id());
            Names.require("node name", identity.name());
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    String.valueOf(e.getMessage()),
                    "Change forge.cluster.node.id and forge.cluster.node.name, or what the NodeIdentityProvider returns.",
                    e);
        }
        return identity;
    }

    private void join(Consumer<UUID> joined) throws InterruptedException {
        identity = identity(members.identities);
        @Nullable FormerHolder former = null;
        while (true) {
            UUID joining = UUID.randomUUID();
            Mdc.put(joining, identity);
            // Its lock before its row: nobody may see a row whose lock is not there yet.
            if (session != null && !session.begin(joining, CONNECT_PATIENCE)) {
                throw new IllegalStateException("no session connection within " + CONNECT_PATIENCE);
            }
            Introduction introduction = introduction(joining);
            switch (members.nodes.register(introduction, pulse.deadlines(), this::releaseHeldByDead)) {
                case REGISTERED -> {
                    correctLivenessKey(introduction);
                    id = joining;
                    contact();
                    beaten(pace.nanos());
                    joined.accept(joining);
                    return;
                }
                case KEY_TAKEN -> {
                    // Perhaps our own former self, killed a moment ago: it is dead when its own deadline has passed.
                    // One
                    // that goes on beating is not.
                    NodeStore.Holder holder =
                            members.nodes.holderOf(identity.id()).orElse(null);
                    if (holder != null && former == null) {
                        log.info("node.id {} belongs to a live node; waiting for its end", identity.id());
                        former = new FormerHolder(holder, pace.nanos());
                    } else if (holder != null && former != null) {
                        endFormer(former, holder);
                    }
                    await(() -> false, Duration.ofMillis(500));
                }
            }
        }
    }

    /** Who had our key when this node began to wait for it. */
    private record FormerHolder(NodeStore.Holder holder, long seenAt) {}

    /** Rejects a key whose holder lives; declares a holder dead that does not beat, whatever the clock of the database says. */
    private void endFormer(FormerHolder former, NodeStore.Holder now) {
        long waited = pace.nanos() - former.seenAt;
        boolean silent = now.id().equals(former.holder.id()) && now.beats() == former.holder.beats();
        if (silent && waited > now.deadAfter().toNanos()) {
            members.nodes
                    .declareDead(now.id(), now.beats(), () -> releaseHeldByDead(now.id()))
                    .ifPresent(Runnable::run);
        } else if (!silent
                && now.beats() > 0
                && waited > settings.heartbeat().dead().plusSeconds(2).toNanos()) {
            throw new ClusterStartupException(
                    "forge.cluster.node.id (%s) belongs to a live node of this cluster%s"
                            .formatted(
                                    identity.id(),
                                    members.nodes
                                            .describeHolderOf(identity.id())
                                            .map(holder -> ", " + holder)
                                            .orElse("")),
                    "Give each instance an id of its own, or none: it is generated then.");
        }
    }

    /** A session that was replaced while the row was being written could not name its lock there. */
    private void correctLivenessKey(Introduction written) {
        Integer former = written.livenessKey();
        if (session != null && former != null && session.livenessKey() != former) {
            members.nodes.renewLiveness(written.id(), former, session.livenessKey());
        }
    }

    private Introduction introduction(UUID joining) {
        NodeSettings.Presence presence = settings.presence();
        var info = new HashMap<>(presence.info());
        info.put("mode", presence.mode().name().toLowerCase(Locale.ROOT));
        info.put(
                "slots",
                Integer.toString(
                        components.stream().mapToInt(NodeComponent::slots).sum()));
        components.forEach(component -> info.putAll(component.facts()));
        return new Introduction(
                joining,
                identity,
                presence.hostname(),
                presence.effectiveRoles(),
                presence.capabilities(),
                presence.version(),
                session != null && settings.detection().livenessLock() ? session.livenessKey() : null,
                components.stream()
                        .flatMap(component -> component.handlers().stream())
                        .sorted()
                        .toList(),
                info);
    }

    private Load load() {
        Load load = settings.presence().load().get();
        return new Load(
                load.connections(),
                components.stream().mapToInt(NodeComponent::load).sum(),
                load.cpu(),
                load.memory());
    }

    private Duration observationPause() {
        Duration usual = pace.stretched(settings.detection().interval());
        return suspicious && usual.compareTo(SECOND_LOOK) > 0 ? SECOND_LOOK : usual;
    }

    /** Whether notifications reach this node; never without a session, which is to say behind a transaction pooler. */
    public boolean isListening() {
        return session != null && session.isConnected();
    }

    private boolean hasSession() {
        return session == null || session.isConnected();
    }

    // Package-private: a test calls a pass without waiting for the loop. One at a time: two threads that both find the
    // node
    // declared dead would join it twice under one key.
    void beat() {
        beatLock.lock();
        try {
            beatOnce();
        } finally {
            beatLock.unlock();
        }
    }

    private void beatOnce() {
        UUID beating = id;
        if (beating == null) {
            return;
        }
        pulse.beating(holdsSomething());
        long sent = pace.nanos();
        NodeStore.Beat answer = sendBeat(beating);
        observer.ownBeatArrived();
        pulse.answered(hasSession());
        switch (answer) {
            case SEEN -> {
                contact();
                beaten(sent);
                // Should a rejoin have ended half-way.
                if (state == State.RUNNING && settings.presence().mayCompete() && !elector.isCompeting()) {
                    elector.compete(true);
                }
            }
            case DRAIN_ORDERED -> {
                contact();
                beaten(sent);
                drainAsOrdered();
            }
            case DECLARED_DEAD -> rejoin(beating);
        }
    }

    private NodeStore.Beat sendBeat(UUID beating) {
        NodeStore.Beat answer;
        try {
            answer = members.nodes.beat(beating, load(), pulse.deadlines());
        } catch (RuntimeException e) {
            readOnly = ServerFailure.isReadOnly(e);
            if (readOnly) {
                wasReadOnly = true;
            }
            // Perhaps only these connections are no good: they may lead to a former primary, or be read-only for good.
            ControlConnections.replace(members.control);
            observer.ownBeatFailed();
            throw e;
        }
        readOnly = false;
        if (wasReadOnly) {
            wasReadOnly = false;
            try {
                writableAgain.run();
            } catch (RuntimeException e) {
                // Not the heartbeat's fault: it was written.
                log.warn("node {}: could not renew what was opened while the database was read-only", id, e);
            }
        }
        return answer;
    }

    /** Whether this node has something that others could not take over before they declare it dead. */
    private boolean holdsSomething() {
        return !elector.rolesHeld().isEmpty() || components.stream().anyMatch(component -> component.load() > 0);
    }

    private void rejoin(UUID former) {
        if (leaving || state == State.STOPPED) {
            return;
        }
        log.warn("node {}: the cluster declared this node dead; it joins again with a new id", former);
        try {
            elector.sessionLost();
            components.forEach(NodeComponent::lost);
            join(joined -> log.info("node {}: joined again as {}", former, joined));
            if (state == State.DRAINING) {
                members.nodes.drain(requireId());
            } else {
                activate();
                elector.compete(settings.presence().mayCompete());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void observe() {
        UUID self = id;
        if (self == null) {
            return;
        }
        Observer.View view = observer.pass(self);
        // A look proves that the database can be read. Others count our heartbeats: while these fail, there is no
        // contact.
        if (!pulse.isUnanswered()) {
            contact();
        }
        if (pulse.isTooSlowForWork() && holdsSomething()) {
            heartbeat.wake();
        }
        pace.liveNodes(view.live());
        suspicious = view.suspicious();
        if (view.changed() && pulse.quicken()) {
            heartbeat.wake();
        }
        // A node that stops would only announce its own end.
        if (candidateLive && !view.candidateLive() && !stopping) {
            log.warn(
                    "no live node can lead: no active node has the role scheduler. Crons and recovery stand still until one"
                            + " joins.");
        }
        candidateLive = view.candidateLive();
        liveWorkers = view.workers();
        Sighting own = view.own();
        alone = own != null && view.live() == 1;
        if (own == null) {
            heartbeat.wake();
        } else if (own.status() == NodeStatus.DRAINING) {
            drainAsOrdered();
        }
    }

    private void drainAsOrdered() {
        Future<?> under = draining;
        if (state == State.RUNNING && (under == null || under.isDone())) {
            // On a thread of its own: it takes as long as work takes, and the node must go on beating and looking.
            draining =
                    scheduler.schedule(this::drainOnOrder, scheduler.getClock().instant());
        }
    }

    private void drainOnOrder() {
        Mdc.put(id, identity);
        if (drain()) {
            log.info("node {}: drained on an operator's order", id);
            elector.resignSoon();
        }
    }

    private void elect(LeaderStore store) {
        UUID candidate = id;
        if (candidate != null) {
            untilElection = elector.step(store, () -> {}, candidate);
        }
    }

    // From when it was sent: the others may have seen it that early.
    private void beaten(long sent) {
        lastBeat = sent;
        trustedFor = pulse.deadlines().dead().multipliedBy(4).dividedBy(5);
    }

    private void contact() {
        lastContact = pace.nanos();
    }

    private boolean await(BooleanSupplier condition, Duration patience) throws InterruptedException {
        long deadline = pace.nanos() + patience.toNanos();
        lock.lock();
        try {
            while (!condition.getAsBoolean()) {
                if (pace.nanos() - deadline >= 0) {
                    return false;
                }
                // Nobody signals: what is waited for happens in the database.
                never.await(POLL.toMillis(), TimeUnit.MILLISECONDS);
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    private void forgetDead() {
        members.nodes.purgeDead(
                DEAD_RETENTION, NODE_BATCH, dead -> components.forEach(component -> component.forgetDead(dead)));
    }

    private Runnable releaseHeldByDead(UUID dead) {
        List<Runnable> afterCommit = components.stream()
                .map(component -> members.nodes.releaseApart(dead, () -> component.releaseHeldByDead(dead)))
                .toList();
        return () -> afterCommit.forEach(Runnable::run);
    }

    private final class ObserverListener implements Observer.Listener {

        @Override
        public void published(ClusterEvent event) {
            events.accept(event);
        }

        @Override
        public void died(UUID dead) {
            elector.died(dead);
            components.forEach(component -> component.died(dead));
        }

        @Override
        public Runnable releaseHeldBy(UUID dead) {
            return releaseHeldByDead(dead);
        }
    }

    private final class SessionListener implements NodeSession.Listener {

        @Override
        public void opening(UUID node) {
            Mdc.put(node, identity);
        }

        @Override
        public void lost() {
            observer.sessionLost();
            heartbeat.wake();
        }

        @Override
        public void heard(String news) {
            components.forEach(component -> component.heard(news));
        }

        @Override
        public boolean isLeaving() {
            return stopping;
        }
    }
}

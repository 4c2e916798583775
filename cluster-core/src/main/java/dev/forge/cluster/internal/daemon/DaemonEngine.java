package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonRun.Stop;
import dev.forge.cluster.internal.daemon.DaemonRun.Unwritten;
import dev.forge.cluster.internal.daemon.DaemonStore.Acquisition;
import dev.forge.cluster.internal.daemon.DaemonStore.Look;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import dev.forge.cluster.internal.database.ServerFailure;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.internal.runtime.Backoff;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.core.task.SimpleAsyncTaskExecutor;

/**
 * All that a node does about daemons.
 *
 * <p><b>Who runs one</b> is elected, each instance being a leader role: terms, fences and the end of leaders that were
 * killed, frozen or cut off are the {@link Elector}'s business. This class says which roles the node stands for, by a look
 * at everybody's daemons every other second; how soon a standby takes over does not depend on that.
 *
 * <p><b>Starting.</b> A method is called when its node holds the term, nobody else can still believe that it does, and
 * the thread of a former term has ended.
 *
 * <p><b>Stopping.</b> What is lost is asked to stop at once and interrupted a second later, which is before anybody else
 * may begin. What is given up is asked to stop, and the role is released only when its thread has ended, so that the
 * successor need not wait. A method that ignores both keeps its role for as long as the node lives.
 *
 * <p>One loop watches and starts, and asks nobody; another one talks to the database.
 */
public final class DaemonEngine implements NodeComponent {

    /** Somebody has paused or resumed a daemon. */
    static final String NEWS = "daemons";

    private static final Logger log = GuardedLogger.of(DaemonEngine.class);
    /** Names of daemons among those of jobs and leader roles. */
    public static final ReservedPrefix RESERVED = new ReservedPrefix(DaemonStore.PREFIX, "daemons", "use another name");

    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration KEEP = Duration.ofSeconds(1);
    private static final Duration HOUR = Duration.ofHours(1);
    private static final int MOST_TIDY_BATCHES = 100;

    /** A node that was away for longer than this may have lost everything by now. */
    private static final Duration GAP = Duration.ofSeconds(1);
    /** Ends within the time between the end of a node's own belief (3 s) and that of its lease (5 s). */
    private static final Duration GRACE_OF_THE_LOST = Duration.ofSeconds(1);

    private static final Duration RELEASE_PATIENCE = Duration.ofSeconds(2);

    private static final Duration SHORTEST_DELAY = Duration.ofMillis(1);
    private static final Duration LONGEST_DELAY = Duration.ofMinutes(5);
    /** After failures of the database server, which end for all daemons at once. */
    private static final Duration LONGEST_DELAY_OF_SERVER = Duration.ofSeconds(5);

    private static final double JITTER = 0.1;

    /** How often to say that a daemon starts. */
    private static final Duration SAY = Duration.ofMinutes(1);

    /**
     * How daemons are spread over the nodes, and when their past is forgotten.
     *
     * @param look between two looks at everybody's
     * @param precedence how long a free instance is left to idler nodes, for each daemon that this node has more than they
     * @param stable for how long nobody may have come or gone before one is moved
     * @param avoided how long what was given up is not taken back
     * @param goodRun after how long a method that runs has recovered, unless ten of its delays are longer
     */
    record Timing(Duration look, Duration precedence, Duration stable, Duration avoided, Duration goodRun) {

        static final Timing USUAL = new Timing(
                Duration.ofMillis(1_500),
                Duration.ofSeconds(2),
                Duration.ofSeconds(10),
                Duration.ofSeconds(10),
                Duration.ofMinutes(1));
    }

    private final Node node;
    private final Timing timing;
    private final DaemonHandlers handlers;
    private final FencedLeadership leadership;
    private final DaemonStore store;
    private final DaemonStore heldByOthers;
    private final Notifications notifications;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final Host host = new Host();
    // Few and long-lived: a thread that shows in a dump is worth more here than a virtual one.
    private final SimpleAsyncTaskExecutor threads = new SimpleAsyncTaskExecutor("forge-daemon-");

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    /** What this node has now. */
    private final Map<String, DaemonRun> runs = new ConcurrentHashMap<>();
    /** What it had, and has lost, while the method has not ended. */
    private final Set<DaemonRun> former = ConcurrentHashMap.newKeySet();
    /** What it has released, while the row does not say so. */
    private final Set<DaemonRun> unsaved = ConcurrentHashMap.newKeySet();
    /** The roles it stands for. */
    private final Set<String> standing = ConcurrentHashMap.newKeySet();

    private final NodeLoop watching = NodeLoop.of("watch-daemons", () -> isIdle() ? HOUR : WATCH, this::watch);
    private final NodeLoop keeping = NodeLoop.of("daemons", () -> byName().isEmpty() ? HOUR : KEEP, this::keep);

    private volatile boolean begun;
    private volatile boolean quiet;
    private volatile long begunAt;
    private volatile long nextLook;
    private volatile long lastWatch;

    // Of the loop that keeps them.
    private final Set<String> introduced = new HashSet<>();
    private final Map<String, Long> freeSince = new HashMap<>();
    private final Map<String, Long> avoidedUntil = new HashMap<>();
    private Set<UUID> members = Set.of();
    private long membersSince;

    /** @param leadership fences the daemons' writes */
    public DaemonEngine(Node node, DaemonHandlers handlers, FencedLeadership leadership) {
        this(node, handlers, leadership, Timing.USUAL);
    }

    DaemonEngine(Node node, DaemonHandlers handlers, FencedLeadership leadership, Timing timing) {
        this.node = node;
        this.timing = timing;
        this.handlers = handlers;
        this.leadership = leadership;
        this.store = new DaemonStore(node.resources().schema(), node.resources().control());
        this.heldByOthers = new DaemonStore(node.resources().schema(), node.membership());
        this.notifications = new Notifications(store::notifyOthers);
        threads.setDaemon(true);
    }

    /** The names of the daemons that this node may run. */
    public Set<String> names() {
        return byName().keySet();
    }

    // What this node may run.
    private Map<String, DaemonHandler> byName() {
        var suitable = new TreeMap<String, DaemonHandler>();
        handlers.all().stream()
                .filter(handler -> handler.suits(node.settings().presence()))
                .forEach(handler -> suitable.put(handler.name(), handler));
        return suitable;
    }

    private List<DaemonHandler> suitable(DaemonScope scope) {
        return byName().values().stream()
                .filter(handler -> handler.scope() == scope)
                .toList();
    }

    private long nanos() {
        return node.nanos();
    }

    // Life --------------------------------------------------------------------------------------------------

    @Override
    public Collection<String> handlers() {
        return names().stream().map(name -> DaemonStore.PREFIX + name).toList();
    }

    /** How many instances the cluster has of each, as far as this build knows: another one may know of more. */
    @Override
    public Map<String, String> facts() {
        var counts = new HashMap<String, String>();
        suitable(DaemonScope.CLUSTER)
                .forEach(handler ->
                        counts.put(DaemonStore.PREFIX + handler.name(), Integer.toString(handler.instances())));
        return counts;
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(watching, keeping, NodeLoop.cleanUp("clean-up-daemons", this::tidy));
    }

    @Override
    public List<ReservedPrefix> reservedPrefixes() {
        return List.of(RESERVED);
    }

    @Override
    public Runnable releaseHeldByDead(UUID dead) {
        heldByOthers.endAll(dead);
        return () -> {};
    }

    @Override
    public void releaseHeldByLeaving(UUID leaving) {
        heldByOthers.endAll(leaving);
    }

    @Override
    public List<String> summary() {
        return names().isEmpty() ? List.of() : List.of("Daemons: " + names());
    }

    private boolean isIdle() {
        return former.isEmpty() && runs.values().stream().allMatch(run -> isAtRest(run.status()));
    }

    @Override
    public void begin() {
        long now = nanos();
        introduced.clear();
        freeSince.clear();
        avoidedUntil.clear();
        members = Set.of();
        begunAt = now;
        nextLook = now;
        lastWatch = now;
        quiet = false;
        begun = true;
        keeping.wake();
    }

    @Override
    public void quiesce() {
        lock.lock();
        try {
            // From here on standUp() changes nothing: no role is added after this look at them.
            quiet = true;
            standing.stream().filter(role -> !runs.containsKey(role)).toList().forEach(this::standDown);
        } finally {
            lock.unlock();
        }
        runs.values().forEach(this::giveUp);
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        long left = patience.toNanos();
        lock.lock();
        try {
            while (!former.isEmpty() || runs.values().stream().anyMatch(DaemonRun::isAlive)) {
                if (left <= 0) {
                    return false;
                }
                left = changed.awaitNanos(left);
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void release() {
        Stream.concat(runs.values().stream(), former.stream()).forEach(run -> {
            run.urgeNow();
            run.urge();
        });
        try {
            // Methods that heed the interrupt end properly.
            awaitIdle(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        runs.values().stream().filter(run -> run.isElected() && run.isAlive()).forEach(deaf -> {
            log.warn(
                    "daemon {}: its method did not end within forge.cluster.shutdown.drain-timeout; another node"
                            + " will run it when this node's lease is over",
                    deaf.label());
            lock.lock();
            try {
                standing.remove(deaf.key());
                node.elector().abandon(deaf.key());
            } finally {
                lock.unlock();
            }
        });
    }

    @Override
    public void end() {
        lock.lock();
        try {
            begun = false;
            standing.forEach(this::standDown);
            // Should this node start again, they must not run beside their successors.
            runs.values().stream().filter(DaemonRun::isAlive).forEach(former::add);
            runs.clear();
        } finally {
            lock.unlock();
        }
        former.forEach(run -> log.warn("daemon {}: its method goes on although its node has left", run.label()));
        unsaved.clear();
    }

    @Override
    public void lost() {
        // Another may run it by now: no grace.
        runs.values().stream().filter(DaemonRun::isElected).forEach(run -> lose(run, Duration.ZERO));
        watching.wake();
    }

    @Override
    public void died(UUID dead) {
        watching.wake();
        lookSoon();
    }

    // On the session's thread: nothing here may wait.
    private void leadershipChanged() {
        watching.wake();
        keeping.wake();
    }

    @Override
    public void heard(String news) {
        if (news.equals(NEWS)) {
            lookSoon();
        }
    }

    /** Tells all nodes that a daemon was paused or resumed here. */
    void announce() {
        lookSoon();
        notifications.send(NEWS);
    }

    private void lookSoon() {
        nextLook = nanos();
        keeping.wake();
    }

    // Watching ----------------------------------------------------------------------------------------------

    /** Stops what is lost and starts what may start. Asks nobody, so that nothing can hold it up. */
    void watch() {
        long now = nanos();
        boolean away = now - lastWatch > GAP.toNanos() && !isIdle();
        lastWatch = now;
        for (DaemonRun run : runs.values()) {
            if (!host.holds(run)) {
                lose(run, away ? Duration.ZERO : GRACE_OF_THE_LOST);
            } else if (begun && !quiet && run.isDue() && isSafe(run)) {
                start(run);
            } else if (run.recovered(longEnough(run))) {
                keeping.wake();
            }
        }
        Stream.concat(runs.values().stream(), former.stream()).forEach(this::urge);
    }

    private boolean isSafe(DaemonRun run) {
        return former.stream().noneMatch(other -> other.key().equals(run.key()))
                && (!run.isElected() || node.elector().isUndisputed(run.key(), run.term()));
    }

    private void urge(DaemonRun run) {
        int times = run.urge();
        Thread thread = run.thread();
        // After the first, the second, the fourth interrupt and so on: it may go on for days.
        if (times > 1 && Integer.bitCount(times - 1) == 1 && thread != null) {
            log.warn(
                    "Daemon {} term {}: its method was interrupted {} times and goes on; it must heed"
                            + " DaemonContext.stopRequested() or interrupts. It keeps its role until it ends. Stack of thread"
                            + " {}:\n{}",
                    run.label(),
                    run.term(),
                    times - 1,
                    thread.getName(),
                    StuckHandlers.stack(thread));
        }
    }

    private void start(DaemonRun run) {
        lock.lock();
        try {
            if (runs.get(run.key()) != run) {
                return;
            }
            run.starting();
        } finally {
            lock.unlock();
        }
        keeping.wake();
        try {
            // One that ends at once, again and again, need not say so each time.
            log.atLevel(run.isWorthSaying(SAY) ? Level.INFO : Level.DEBUG)
                    .log("daemon {}: starts on this node, term {}", run.label(), run.term());
            threads.execute(() -> work(run));
        } catch (RuntimeException | OutOfMemoryError e) {
            ended(run, run.returned(), e);
        }
    }

    private void work(DaemonRun run) {
        Thread.currentThread().setName("forge-daemon-" + run.name() + "-" + run.instance());
        Mdc.put(node.id(), node.identity());
        Mdc.put("forge.daemon.name", run.name());
        Throwable failure = null;
        Duration ran = Duration.ZERO;
        try {
            if (run.begin()) {
                run.handler().target().code().run(run);
            }
        } catch (Throwable e) {
            failure = e;
        } finally {
            ran = run.returned();
        }
        ended(run, ran, failure);
    }

    private void ended(DaemonRun run, Duration ran, @Nullable Throwable failure) {
        try {
            settle(run, ran, failure);
        } finally {
            watching.wake();
            keeping.wake();
        }
    }

    /** Decides what becomes of it. */
    private void settle(DaemonRun run, Duration ran, @Nullable Throwable failure) {
        lock.lock();
        try {
            run.gone();
            if (runs.get(run.key()) != run) {
                if (former.remove(run)) {
                    log.info("daemon {} term {}: its method has ended", run.label(), run.term());
                }
            } else if (run.stopReason() != null) {
                release(run);
                log.info("daemon {} term {}: its method has ended, as it was asked to", run.label(), run.term());
            } else if (!host.holds(run)) {
                runs.remove(run.key(), run);
                log.info("daemon {} term {}: its method has ended, and so has its term", run.label(), run.term());
            } else if (failure != null) {
                recover(run, ran, failure);
            } else if (run.handler().restarts().onReturn()) {
                // However often: only exceptions make it fail.
                run.endedAfter(ran, longEnough(run));
                restart(run);
            } else {
                run.rest(DaemonStatus.STOPPED);
                log.info("daemon {} term {}: its method has returned, it is done", run.label(), run.term());
            }
        } finally {
            changed.signalAll();
            lock.unlock();
        }
    }

    private void recover(DaemonRun run, Duration ran, Throwable failure) {
        if (ServerFailure.caused(failure)) {
            recoverFromServer(run, failure);
            return;
        }
        Integer most = run.handler().restarts().most();
        int failures = run.failed(failure, ran, longEnough(run));
        if (most != null && failures > most) {
            run.rest(DaemonStatus.FAILED);
            log.error(
                    "daemon {} term {}: threw {} times in a row, more than it may (maxRestarts {}); it has failed",
                    run.label(),
                    run.term(),
                    failures,
                    most,
                    ErrorText.loggable(failure));
            return;
        }
        Duration delay = restart(run);
        log.warn(
                "daemon {} term {}: threw; starts again in {} ms",
                run.label(),
                run.term(),
                delay.toMillis(),
                ErrorText.loggable(failure));
    }

    /** The database server has failed: counts as no restart of its own, and the delay does not grow for minutes. */
    private void recoverFromServer(DaemonRun run, Throwable failure) {
        int failures = run.failedByServer(failure);
        Duration delay = restart(run, failures, LONGEST_DELAY_OF_SERVER);
        log.atLevel(failures == 1 ? Level.WARN : Level.DEBUG)
                .log(
                        "daemon {} term {}: threw because the database server failed: {}. Starts again in {} ms; maxRestarts does"
                                + " not count this. Further failures of the server are logged at DEBUG.",
                        run.label(),
                        run.term(),
                        ServerFailure.brief(failure),
                        delay.toMillis());
    }

    /** Starts it again, the later the more often in a row it has ended soon. */
    private Duration restart(DaemonRun run) {
        return restart(run, run.shortRuns(), LONGEST_DELAY);
    }

    private Duration restart(DaemonRun run, int times, Duration most) {
        Duration declared = run.handler().restarts().delay();
        // Twice nothing is nothing.
        Duration first = declared.compareTo(SHORTEST_DELAY) < 0 ? SHORTEST_DELAY : declared;
        Duration longest = first.compareTo(most) > 0 ? first : most;
        Duration delay = jittered(new Backoff(Backoff.Growth.EXPONENTIAL, first, 2, longest).delay(times));
        run.restartIn(delay);
        return delay;
    }

    /** After that time nothing of what went wrong before counts any more. */
    private Duration longEnough(DaemonRun run) {
        Duration tenDelays = run.handler().restarts().delay().multipliedBy(10);
        return tenDelays.compareTo(timing.goodRun) > 0 ? tenDelays : timing.goodRun;
    }

    private Duration jittered(Duration delay) {
        return Duration.ofNanos((long) (delay.toNanos() * (1 + JITTER * (2 * random.nextDouble() - 1))));
    }

    /** Its thread has ended, or there was none: whoever wants it may have it. */
    private void release(DaemonRun run) {
        // First: the keeping thread, which finds that it is not run here any more, would otherwise take it over again.
        // The elector still holds its term, and the method would start beside that of the successor.
        standing.remove(run.key());
        runs.remove(run.key(), run);
        run.release();
        unsaved.add(run);
        if (run.isElected()) {
            standDown(run.key());
        }
    }

    /** Asks its method to end, and releases it when it has. */
    private void giveUp(DaemonRun run) {
        lock.lock();
        try {
            if (runs.get(run.key()) == run
                    && !isAtRest(run.status())
                    && run.stop(Stop.LEAVE, node.settings().drainTimeout())
                    && !run.isAlive()) {
                release(run);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        keeping.wake();
    }

    private static boolean isAtRest(DaemonStatus status) {
        return status == DaemonStatus.STOPPED || status == DaemonStatus.FAILED;
    }

    private void lose(DaemonRun run, Duration grace) {
        lock.lock();
        try {
            if (!runs.remove(run.key(), run)) {
                return;
            }
            run.stop(Stop.LOST, grace);
            if (run.isAlive()) {
                former.add(run);
                log.warn("daemon {}: term {} of this node is over; its method has to end", run.label(), run.term());
            } else if (isAtRest(run.status())) {
                // Perhaps there is still time to say so.
                unsaved.add(run);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    // Both under the lock, because several threads call them: a role that is only in this set would never be led, and
    // one that only the elector knows would be led but never run.
    void standUp(String role) {
        lock.lock();
        try {
            if (begun && !quiet && standing.add(role)) {
                node.elector().join(role, this::leadershipChanged);
            }
        } finally {
            lock.unlock();
        }
    }

    void standDown(String role) {
        lock.lock();
        try {
            standing.remove(role);
            node.elector().leave(role);
        } finally {
            lock.unlock();
        }
        // Where there is no session whose thread does it all the time.
        node.electSoon();
    }

    /** Whether this node stands for that role. */
    boolean isStanding(String role) {
        return standing.contains(role);
    }

    // Keeping -----------------------------------------------------------------------------------------------

    /** Takes over what this node was elected to, writes what happened, and looks at the others. */
    void keep() {
        UUID self = node.id();
        if (!begun || self == null) {
            return;
        }
        introduce();
        takeOver(self);
        write();
        if (!quiet && nanos() - nextLook >= 0) {
            nextLook = nanos() + node.pace().stretched(timing.look).toNanos();
            look(self);
        }
    }

    private void introduce() {
        for (DaemonHandler handler : suitable(DaemonScope.CLUSTER)) {
            if (!introduced.contains(handler.name())) {
                store.introduce(handler.name(), handler.instances());
                introduced.add(handler.name());
            }
        }
    }

    private void takeOver(UUID self) {
        for (DaemonHandler handler : suitable(DaemonScope.CLUSTER)) {
            for (int instance = 0; instance < handler.instances(); instance++) {
                String role = DaemonStore.role(handler.name(), instance);
                OptionalLong term = node.elector().term(role);
                DaemonRun present = runs.get(role);
                // What it does not stand for any more is about to be released.
                if (standing.contains(role)
                        && term.isPresent()
                        && (present == null || present.term() != term.getAsLong())) {
                    if (present != null) {
                        lose(present, GRACE_OF_THE_LOST);
                    }
                    takeOver(handler, new Tenure(handler.name(), instance, self, term.getAsLong()));
                }
            }
        }
    }

    private void takeOver(DaemonHandler handler, Tenure tenure) {
        String role = DaemonStore.role(tenure.name(), tenure.instance());
        if (quiet) {
            standDown(role);
            return;
        }
        Acquisition acquisition = store.acquire(tenure);
        if (acquisition instanceof Acquisition.Acquired acquired) {
            begin(new DaemonRun(handler, tenure, acquired.restarts(), host));
        } else if (acquisition instanceof Acquisition.AtRest) {
            standDown(role);
        } else {
            log.debug("daemon {}: term {} is over already", role, tenure.term());
        }
    }

    private void begin(DaemonRun run) {
        // Paused and resumed in a moment, it may be the same tenure: what is left to say of the former run is wrong.
        unsaved.removeIf(other -> other.key().equals(run.key()));
        runs.put(run.key(), run);
        if (quiet) {
            giveUp(run);
        }
        watching.wake();
    }

    private void write() {
        List<Unwritten> unwritten = Stream.concat(runs.values().stream(), unsaved.stream())
                .map(DaemonRun::unwritten)
                .filter(Objects::nonNull)
                .toList();
        store.write(unwritten.stream().map(Unwritten::change).toList());
        // Those that were not found are another's: nothing to be said about them any more.
        unwritten.forEach(what -> {
            what.run().written(what);
            if (isAtRest(what.change().status())) {
                restEnded(what.run());
            }
        });
        unsaved.removeIf(run -> run.unwritten() == null);
    }

    /** Now that its row says so, the role is free. What every node runs stays: this node has to know that it is done. */
    private void restEnded(DaemonRun run) {
        lock.lock();
        try {
            if (run.isElected() && runs.remove(run.key(), run)) {
                standDown(run.key());
            }
        } finally {
            lock.unlock();
        }
    }

    private void look(UUID self) {
        Look look = store.look(self);
        runs.values().stream().filter(run -> look.paused().contains(run.name())).forEach(this::giveUp);
        for (DaemonHandler handler : suitable(DaemonScope.NODE)) {
            lookAfter(handler, look, self);
        }
        var spread = new DaemonSpread(look.holders(), look.candidates());
        boolean anyFree = choose(look, spread, self);
        if (isStable(look) && !anyFree) {
            rebalance(spread, self);
        }
    }

    private void lookAfter(DaemonHandler handler, Look look, UUID self) {
        DaemonRun run = runs.get(DaemonRun.key(handler, 0));
        DaemonStatus row = look.own().get(handler.name());
        boolean startable = (run == null ? row == null || !isAtRest(row) : isResumed(run, row))
                && isUpLongEnough(handler)
                && !look.paused().contains(handler.name());
        if (row != null && !startable) {
            return;
        }
        OptionalInt number = store.settle(handler.name(), self);
        if (number.isEmpty()) {
            // Declared dead: it looks again when it has joined anew.
            return;
        }
        var tenure = new Tenure(handler.name(), number.getAsInt(), self, 0);
        if (startable) {
            begin(new DaemonRun(handler, tenure, 0, host));
        } else if (run != null) {
            // Its node has joined anew.
            run.moved(tenure);
        }
    }

    /** Whether its row has said that it is at rest, and says something else now. */
    private static boolean isResumed(DaemonRun run, @Nullable DaemonStatus row) {
        return row != null && !isAtRest(row) && isAtRest(run.status()) && run.unwritten() == null;
    }

    private boolean isUpLongEnough(DaemonHandler handler) {
        return nanos() - begunAt >= handler.needs().up().toNanos();
    }

    /**
     * Which roles to stand for: those that no idler node could take, and those that none of them has taken. Answers
     * whether some of them is free.
     */
    private boolean choose(Look look, DaemonSpread spread, UUID self) {
        long now = nanos();
        var roles = new HashSet<String>();
        for (DaemonHandler handler : suitable(DaemonScope.CLUSTER)) {
            if (!look.paused().contains(handler.name()) && isUpLongEnough(handler)) {
                for (int instance = 0; instance < handler.instances(); instance++) {
                    roles.add(DaemonStore.role(handler.name(), instance));
                }
            }
        }
        roles.removeAll(look.atRest());
        boolean anyFree = roles.stream().anyMatch(spread::isFree);
        avoidedUntil.values().removeIf(until -> now - until >= 0);
        roles.removeAll(avoidedUntil.keySet());
        freeSince.keySet().retainAll(roles);
        freeSince.keySet().removeIf(role -> !spread.isFree(role));
        var taking = new ArrayList<String>();
        for (String role : spread.inOrder(roles, self)) {
            boolean free = spread.isFree(role);
            int surplus = runs.containsKey(role) ? 0 : spread.surplus(role, self, free ? taking : List.of());
            long since = free ? freeSince.computeIfAbsent(role, r -> now) : now;
            if (surplus <= 0
                    || (free
                            && now - since
                                    >= timing.precedence.multipliedBy(surplus).toNanos())) {
                standUp(role);
                if (free) {
                    taking.add(role);
                }
            } else {
                retire(role);
            }
        }
        standing.stream().filter(role -> !roles.contains(role)).toList().forEach(this::retire);
        return anyFree;
    }

    /** Stands for it no more, unless it has it: that ends in another way. */
    private void retire(String role) {
        if (standing.contains(role) && !runs.containsKey(role)) {
            standDown(role);
        }
    }

    private boolean isStable(Look look) {
        long now = nanos();
        var present = new HashSet<UUID>();
        look.candidates().values().forEach(present::addAll);
        if (!present.equals(members)) {
            members = present;
            membersSince = now;
        }
        return now - membersSince >= timing.stable.toNanos();
    }

    /** Gives one up if another node has far less to do; one at a time. */
    private void rebalance(DaemonSpread spread, UUID self) {
        long now = nanos();
        if (runs.values().stream().anyMatch(run -> run.stopReason() != null)) {
            return;
        }
        spread.toGiveUp(self).stream()
                .map(runs::get)
                .filter(Objects::nonNull)
                .max(Comparator.comparingLong(run -> run.wonAt() - now))
                .ifPresent(run -> {
                    log.info("daemon {}: given up, another node has less to do", run.label());
                    avoidedUntil.put(run.key(), now + timing.avoided.toNanos());
                    giveUp(run);
                });
    }

    /** Forgets what nobody knows any more; one node for all. */
    void tidy() {
        // What is left after so many batches is for the next minute.
        for (int i = 0; i < MOST_TIDY_BATCHES && store.tidy() == DaemonStore.TIDY_BATCH; i++) {
            log.debug("forgot {} daemons that no live node knows", DaemonStore.TIDY_BATCH);
        }
    }

    private final class Host implements DaemonRun.Host {

        @Override
        public long nanos() {
            return node.nanos();
        }

        @Override
        public String nodeName() {
            return node.identity().name();
        }

        @Override
        public boolean holds(DaemonRun run) {
            return !run.isElected() || node.elector().holds(run.key(), run.term());
        }

        @Override
        public OptionalLong fencingToken(DaemonRun run) {
            return node.elector().fencingToken(run.key(), run.term());
        }

        @Override
        public <T> T fenced(DaemonRun run, Supplier<T> work) {
            return leadership.fenced(run.key(), run.tenure().node(), run.term(), work);
        }
    }
}

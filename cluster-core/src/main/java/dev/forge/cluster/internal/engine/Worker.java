package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.Outcome;
import dev.forge.cluster.PermanentJobFailure;
import dev.forge.cluster.internal.engine.JobMonitor.Ending;
import dev.forge.cluster.internal.engine.Running.Stop;
import dev.forge.cluster.internal.engine.WorkSettings.LaneSettings;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.Claiming;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import dev.forge.cluster.internal.store.JobStore.Finish;
import dev.forge.cluster.internal.store.JobStore.Head;
import dev.forge.cluster.internal.store.JobStore.LastStatement;
import dev.forge.cluster.internal.store.JobStore.Queue;
import dev.forge.cluster.internal.store.JobStore.Queues;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;

/**
 * Claims jobs and runs them. One thread claims for all lanes, one {@linkplain Finisher writes} how jobs ended, the
 * lanes' threads run handlers.
 *
 * <p><b>Looking and claiming.</b> A look finds the queues that have something due, and when the next job will be. As
 * long as claims from them come back full no further look is needed; a wake-up, a claim that came back short, the time
 * of the next job and every few seconds bring one.
 *
 * <p><b>Holding.</b> A claim is this node's until its lease ends, which renewals move on. The node counts for itself,
 * from when it sent the last renewal that was answered: past that, or when the node itself may be taken for dead, it
 * interrupts the handler before anybody else can begin.
 */
final class Worker implements Work {

    /** How long the table may say of a job that it waits although it runs. */
    private static final Duration MARK_AFTER = Duration.ofMillis(100);

    private static final Logger log = LoggerFactory.getLogger(Worker.class);
    private static final int LARGEST_CLAIM = 500;
    /** Every so many claims the oldest job comes first, however unimportant it is. */
    private static final int AGING = 16;
    /** After a look that took its time the next one waits this many times as long, for claims to get their turn. */
    private static final int LOOK_COST = 4;

    private static final Duration LOOK_AT_LEAST = Duration.ofSeconds(5);
    private static final Duration LOOK_AT_MOST = Duration.ofMillis(1);
    /** What a look may cost without marks; see {@link #look}. */
    private static final Duration CHEAP_LOOK = Duration.ofMillis(5);

    private static final int MOST_MARKS = 10_000;
    private static final Duration AFTER_FAILURE = Duration.ofMillis(500);
    private static final int LARGEST_BACKLOG = 5_000;
    private static final Duration PASS_PATIENCE = Duration.ofSeconds(15);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(2);
    private static final Duration RELEASE_PATIENCE = Duration.ofMillis(500);
    private static final Duration UNKNOWN_AFTER = Duration.ofSeconds(15);
    private static final Duration WITHOUT_TRANSACTION = Duration.ofSeconds(2);
    private static final Duration LAST_CHANCES_APART = Duration.ofSeconds(1);
    private static final int LONGEST_ERROR = 20_000;

    private final WorkSettings settings;
    private final JobHandlers handlers;
    private final Host host;
    private final Stores stores;
    private final JobMonitor monitor;
    private final JobJson json;
    private final Finisher finisher;
    private final Map<String, Bay> bays = new LinkedHashMap<>();
    private final Map<ClaimKey, Running> inFlight = new ConcurrentHashMap<>();
    private final java.util.Queue<UUID> doubts = new ConcurrentLinkedQueue<>();
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final Function<String, String> laneOf;
    private volatile List<String> capabilities = List.of("");

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Condition idle = lock.newCondition();
    private boolean awake;
    private boolean news;
    private volatile boolean quiet = true;
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;
    private volatile long lastPass;

    // Of the claiming thread alone.
    private boolean looked;
    private long lastLook;
    private long lookTook;
    private long lastWholeLook;
    private long wholeLookTook;
    private @Nullable Long nextDue;

    /** The node as its worker sees it. */
    interface Host {

        /** The id under which to claim; null: not now. */
        @Nullable
        UUID claimant();

        /** Whether the others can still take this node for alive. */
        boolean isTrusted();

        long nanos();

        String nodeName();

        /** Says in the log of this thread who we are. */
        void introduce();
    }

    /**
     * Where jobs are.
     *
     * @param control on our own connections
     * @param application on the application's, for handlers' own transactions
     */
    record Stores(JobStore control, JobStore application) {}

    /** A lane with the names that run on it, and what is known of their queues. */
    private static final class Bay {
        final Lane lane;
        final List<String> names = new ArrayList<>();
        /** Queues that have something due, and from where on. */
        final Map<Queue, Instant> due = new LinkedHashMap<>();
        /** Queues that were ever seen, and before when nothing is known to be in them. */
        final Map<Queue, Instant> marks = new HashMap<>();

        int claims;

        Bay(Lane lane) {
            this.lane = lane;
        }
    }

    Worker(
            WorkSettings settings,
            JobHandlers handlers,
            Host host,
            Stores stores,
            JobJson json,
            JobMonitor monitor,
            Function<String, String> laneOf) {
        this.settings = settings;
        this.handlers = handlers;
        this.host = host;
        this.stores = stores;
        this.json = json;
        this.monitor = monitor;
        this.laneOf = laneOf;
        this.finisher = new Finisher(stores.control, host::introduce, this::settled);
        for (LaneSettings lane : settings.lanes()) {
            bays.put(lane.name(), new Bay(new Lane(lane, host::nanos, this::run, this::hungry)));
        }
    }

    // Life --------------------------------------------------------------------------------------------------

    /** Begins to claim. */
    void start(Collection<String> offered) {
        var all = new ArrayList<String>(offered);
        all.add("");
        capabilities = all;
        bays.values().forEach(bay -> {
            bay.names.clear();
            bay.due.clear();
            bay.marks.clear();
            bay.lane.open();
        });
        handlers.names().forEach(name -> bay(laneOf.apply(name)).names.add(name));
        finisher.start();
        quiet = false;
        stopping = false;
        looked = false;
        lastPass = host.nanos();
        Thread starting = new Thread(this::claimAll, "forge-cluster-claim");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    private Bay bay(String lane) {
        Bay bay = bays.get(lane);
        if (bay == null) {
            throw new IllegalArgumentException("there is no executor " + lane);
        }
        return bay;
    }

    /** Ends its threads. The last of all loops: a handler that drains needs its lease until then. */
    void stop() throws InterruptedException {
        quiesce();
        stopping = true;
        wake();
        Thread ending = thread;
        thread = null;
        if (ending != null) {
            ending.join(STOP_PATIENCE.toMillis());
        }
        finisher.stop(STOP_PATIENCE);
        bays.values().forEach(bay -> bay.lane.close());
        inFlight.values().forEach(running -> lose(running, "the node has left"));
    }

    @Override
    public void quiesce() {
        quiet = true;
        List<Running> withdrawn =
                inFlight.values().stream().filter(Running::withdraw).toList();
        if (!withdrawn.isEmpty()) {
            giveBack(withdrawn);
        }
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        long deadline = host.nanos() + patience.toNanos();
        lock.lock();
        try {
            while (!inFlight.isEmpty()) {
                long left = deadline - host.nanos();
                if (left <= 0) {
                    return false;
                }
                idle.awaitNanos(left);
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void release() {
        List<Running> left = List.copyOf(inFlight.values());
        left.forEach(running -> running.stop(Stop.DRAIN));
        try {
            // Handlers that heed the interrupt end properly.
            awaitIdle(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        // Those whose end is being written have ended.
        List<Running> deaf = inFlight.values().stream()
                .filter(running -> !running.isEnding())
                .toList();
        if (!deaf.isEmpty()) {
            log.warn(
                    "{} jobs did not end within forge.cluster.shutdown.drain-timeout; others will run them: {}",
                    deaf.size(),
                    deaf.stream()
                            .map(running -> running.name() + " " + running.id())
                            .limit(10)
                            .toList());
            giveBack(deaf);
            deaf.forEach(running -> {
                running.stop(Stop.LOST);
                forget(running);
            });
        }
    }

    @Override
    public void lost() {
        inFlight.values().forEach(running -> lose(running, "this node was declared dead"));
    }

    /** Their attempts do not count: others begin where these have not. */
    private void giveBack(Collection<Running> runnings) {
        Map<UUID, List<Finish>> byNode = new LinkedHashMap<>();
        runnings.forEach(running ->
                byNode.computeIfAbsent(running.node(), n -> new ArrayList<>()).add(returned(running, Duration.ZERO)));
        try {
            byNode.forEach((node, finishes) -> stores.control.finish(node, finishes));
        } catch (DataAccessException e) {
            log.debug("{} jobs could not be given back; their leases will end", runnings.size(), e);
        }
        runnings.forEach(this::forget);
    }

    private static Finish returned(Running running, Duration delay) {
        return new Finish(
                running.key(),
                JobStatus.PENDING,
                null,
                null,
                delay.toMillis(),
                1,
                running.lateCheckpoint(),
                running.takeProgress(),
                null,
                null);
    }

    // Claiming ----------------------------------------------------------------------------------------------

    /** Somebody has enqueued something, or something came back: look. */
    void wake() {
        signal(true);
    }

    private void hungry() {
        signal(false);
    }

    private void signal(boolean withNews) {
        lock.lock();
        try {
            awake = true;
            news |= withNews;
            changed.signal();
        } finally {
            lock.unlock();
        }
    }

    private void claimAll() {
        int failures = 0;
        while (!stopping) {
            Duration pause;
            host.introduce();
            try {
                pause = pass();
                if (failures > 0) {
                    log.info("worker: claims again after {} failures", failures);
                    failures = 0;
                }
            } catch (RuntimeException | Error e) {
                // Fail closed: what was claimed without our knowing goes back, see renew(). An Error too: without this
                // thread nothing would run, and nobody know why. Reported once: an outage must not fill the log.
                if (failures++ == 0) {
                    log.warn("worker: could not claim; trying again", e);
                } else {
                    log.debug("worker: could not claim {} times in a row", failures, e);
                }
                pause = AFTER_FAILURE;
            }
            lastPass = host.nanos();
            sleep(pause);
        }
    }

    @Override
    public List<String> stuck() {
        var stuck = new ArrayList<String>();
        Thread claiming = thread;
        if (claiming != null
                && (!claiming.isAlive()
                        || host.nanos() - lastPass
                                > settings.pollInterval().plus(PASS_PATIENCE).toNanos())) {
            stuck.add("claim");
        }
        if (!finisher.isAlive()) {
            stuck.add("finish");
        }
        return stuck;
    }

    private void sleep(Duration pause) {
        lock.lock();
        try {
            long nanos = pause.toNanos();
            while (!awake && !stopping && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
            awake = false;
        } catch (InterruptedException e) {
            stopping = true;
        } finally {
            lock.unlock();
        }
    }

    /** Claims what there is room for; answers for how long there is nothing to do. */
    Duration pass() {
        UUID node = quiet ? null : host.claimant();
        if (node == null || bays.values().stream().noneMatch(bay -> bay.lane.room() > 0)) {
            return settings.pollInterval();
        }
        if (finisher.backlog() > LARGEST_BACKLOG) {
            // What has ended first: otherwise a table that cannot be written fills this node's memory.
            return AFTER_FAILURE;
        }
        boolean fresh = lookIfDue();
        for (Bay bay : bays.values()) {
            claim(bay, node);
        }
        boolean unsatisfied = bays.values().stream().anyMatch(bay -> bay.lane.room() > 0 && bay.due.isEmpty());
        if (!fresh && unsatisfied) {
            // They came back short: only a look can tell whether there is nothing more.
            lock.lock();
            try {
                news = true;
            } finally {
                lock.unlock();
            }
            return untilNextLook();
        }
        Duration poll = settings.pollInterval();
        Long due = nextDue;
        return due == null ? poll : min(poll, Duration.ofNanos(Math.max(0, due - host.nanos())));
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private Duration untilNextLook() {
        return Duration.ofNanos(Math.max(0, lastLook + pauseAfter(lookTook) - host.nanos()));
    }

    private static long pauseAfter(long lookTook) {
        return Math.max(LOOK_AT_MOST.toNanos(), Math.min(lookTook * LOOK_COST, LOOK_AT_LEAST.toNanos()));
    }

    private boolean lookIfDue() {
        long now = host.nanos();
        Long due = nextDue;
        boolean wanted;
        lock.lock();
        try {
            wanted = news
                    || !looked
                    || now - lastLook
                            > min(LOOK_AT_LEAST, settings.pollInterval()).toNanos()
                    || (due != null && now - due >= 0);
            if (!wanted || (looked && !untilNextLook().isZero())) {
                return false;
            }
            news = false;
        } finally {
            lock.unlock();
        }
        try {
            look(now);
        } catch (DataAccessException e) {
            // What is known to be due can still be claimed.
            if (bays.values().stream().allMatch(bay -> bay.due.isEmpty())) {
                throw e;
            }
            log.debug("worker: a look failed", e);
            lastLook = host.nanos();
            lookTook = lastLook - now;
            return false;
        }
        return true;
    }

    /**
     * Looks at the queues: at the whole of them, unless that has become expensive because a snapshot somewhere keeps dead
     * entries in the index. Then whole looks are as rare as without marks, and those in between begin at the marks, which
     * suffices for all that came in the order of its time. Each of these leaves a whole look to be done.
     */
    private void look(long now) {
        boolean whole =
                !looked || wholeLookTook < CHEAP_LOOK.toNanos() || now - lastWholeLook >= pauseAfter(wholeLookTook);
        nextDue = whole ? null : lastWholeLook + pauseAfter(wholeLookTook);
        for (Bay bay : bays.values()) {
            if (bay.names.isEmpty()) {
                continue;
            }
            Queues queues = stores.control.queues(bay.names, capabilities, whole ? Map.of() : bay.marks);
            if (bay.marks.size() > MOST_MARKS) {
                bay.marks.clear();
            }
            bay.marks.putAll(queues.marks());
            bay.due.clear();
            for (Head head : queues.due()) {
                bay.due.put(head.queue(), head.scheduledAt());
            }
            Long millis = queues.nextMillis();
            if (millis != null) {
                // A little later, so that it is due then by the database's clock too.
                long at = now + Duration.ofMillis(millis + 1).toNanos();
                nextDue = nextDue == null ? at : Math.min(nextDue, at);
            }
        }
        looked = true;
        lastLook = host.nanos();
        lookTook = lastLook - now;
        if (whole) {
            lastWholeLook = lastLook;
            wholeLookTook = lookTook;
            // If it was expensive the next one, from the marks, will not be.
            lookTook = lookTook < CHEAP_LOOK.toNanos() ? lookTook : 0;
        }
    }

    private void claim(Bay bay, UUID node) {
        var full = new HashSet<Queue>();
        while (!quiet && bay.lane.room() > 0 && bay.due.size() > full.size()) {
            Queue queue = next(bay, full);
            JobHandler handler = handlers.named(queue.name());
            if (handler == null) {
                bay.due.remove(queue);
                continue;
            }
            Instant mark = bay.due.getOrDefault(queue, JobStore.UNMARKED);
            // A transactional job's row cannot be marked as running later, so it is claimed only when it starts at
            // once.
            int limit = Math.min(handler.isTransactional() ? bay.lane.idle() : bay.lane.room(), LARGEST_CLAIM);
            if (limit == 0) {
                full.add(queue);
                continue;
            }
            long sent = host.nanos();
            List<Claimed> claimed = stores.control.claim(
                    queue,
                    mark,
                    new Claiming(
                            node,
                            limit,
                            Math.min(bay.lane.idle(), limit),
                            handler.limits().maxAttempts(),
                            handler.isTransactional() ? null : settings.leases().duration()));
            monitor.claimed(Duration.ofNanos(host.nanos() - sent));
            bay.claims++;
            if (claimed.size() < limit) {
                bay.due.remove(queue);
            } else {
                bay.due.put(queue, claimed.get(claimed.size() - 1).scheduledAt());
            }
            var holder = new Running.Holder(node, host.nodeName());
            var postponed = new ArrayList<Finish>();
            for (Claimed one : claimed) {
                var running = new Running(one, holder, handler, sent, json, stores.control);
                if (isLastChance(one) && inFlight.values().stream().anyMatch(other -> isLastChance(other.claimed()))) {
                    postponed.add(returned(running, LAST_CHANCES_APART));
                } else {
                    inFlight.put(running.key(), running);
                    bay.lane.add(running);
                }
            }
            if (!postponed.isEmpty()) {
                stores.control.finish(node, postponed);
            }
        }
        if (quiet) {
            // Whatever was claimed while the drain began.
            quiesce();
        }
    }

    /**
     * Whether it is abandoned if its node dies once more. Of such jobs a node runs one at a time: if the node dies of one,
     * the others must not go with it.
     */
    private boolean isLastChance(Claimed job) {
        CrashRule crash = settings.leases().crash();
        return !crash.spendsAttempt() && job.recoveries() > 0 && job.recoveries() >= crash.maxRecoveries();
    }

    /** The most urgent queue, and of these the one that has waited longest; now and then simply the latter. */
    private static Queue next(Bay bay, Set<Queue> full) {
        Comparator<Map.Entry<Queue, Instant>> oldest = Map.Entry.comparingByValue();
        Comparator<Map.Entry<Queue, Instant>> urgent =
                Comparator.comparingInt(entry -> -entry.getKey().priority());
        return bay.due.entrySet().stream()
                .filter(entry -> !full.contains(entry.getKey()))
                .min(bay.claims % AGING == AGING - 1 ? oldest : urgent.thenComparing(oldest))
                .orElseThrow()
                .getKey();
    }

    // Running -----------------------------------------------------------------------------------------------

    private void run(Running running) {
        if (!host.isTrusted() || !isHeld(running) || !running.start(host.nanos())) {
            lose(running, "its time was over before it could start");
            return;
        }
        host.introduce();
        MDC.put("forge.job.id", running.id().toString());
        MDC.put("forge.job.name", running.name());
        try {
            monitor.started(running.name(), waited(running));
            Finish finish = observed(running);
            running.returned();
            running.ending();
            if (finish == null) {
                running.end();
                settled(running, true);
            } else if (running.stopReason() == Stop.LOST) {
                lose(running, "taken away while it ran");
            } else {
                finisher.add(running, finish);
            }
        } catch (LostInTransaction e) {
            running.returned();
            lose(running, "not this node's when its transaction was to commit");
        } catch (Throwable e) {
            // Not the handler's but ours, or that of a strategy: the job must not hang for it.
            running.returned();
            finisher.add(running, finish(running, JobStatus.FAILED, null, text(e), 0, 0));
        } finally {
            MDC.remove("forge.job.id");
            MDC.remove("forge.job.name");
        }
    }

    private Duration waited(Running running) {
        return Duration.ofMillis(running.claimed().waitedMillis())
                .plusNanos(Math.max(0, running.startedAt() - running.confirmedAt()));
    }

    private @Nullable Finish observed(Running running) {
        var finish = new AtomicReference<@Nullable Finish>();
        monitor.observe(running, () -> {
            finish.set(attempt(running));
            if (finish.get() != null && running.stopReason() == Stop.LOST) {
                running.ended(Ending.LOST, running.failure());
            }
        });
        return finish.get();
    }

    /** How it ended; null if that is written already. */
    private @Nullable Finish attempt(Running running) {
        try {
            JobHandler.Transaction transaction = running.handler().target().transaction();
            if (transaction == null) {
                return finish(running, invoke(running));
            }
            return inTransaction(running, transaction);
        } catch (LostInTransaction e) {
            running.ended(Ending.LOST, null);
            throw e;
        } catch (Throwable e) {
            return failure(running, e);
        }
    }

    private @Nullable Object invoke(Running running) throws Throwable {
        JobHandler.Target target = running.handler().target();
        Type type = target.payloadType();
        Object payload = null;
        if (type != null) {
            try {
                payload = json.read(running.claimed().payload(), type);
            } catch (RuntimeException e) {
                throw new PermanentJobFailure(
                        "its payload cannot be read as %s: %s".formatted(type.getTypeName(), e.getMessage()), e);
            }
        }
        return target.code().run(payload, running);
    }

    private @Nullable Finish inTransaction(Running running, JobHandler.Transaction transaction) throws Throwable {
        TransactionStatus status;
        try {
            status = transaction.manager().getTransaction(transaction.definition());
        } catch (TransactionException e) {
            log.info(
                    "job {} {}: no transaction for it now, it comes back: {}",
                    running.name(),
                    running.id(),
                    e.getMessage());
            running.ended(Ending.RETURNED, null);
            return returned(running, WITHOUT_TRANSACTION);
        }
        LastStatement last;
        try {
            Finish finish = finish(running, invoke(running));
            running.returned();
            running.ending();
            // What an entity manager still holds back belongs before the fence.
            status.flush();
            if (!stores.application.joinsTransaction()) {
                throw new PermanentJobFailure(
                        "the transaction of its handler is not one of the cluster's DataSource, so that the job cannot be"
                                + " completed in it: name the right manager in @Transactional, or leave the annotation out");
            }
            last = stores.application.finishInTransaction(running.node(), finish);
            if (last == LastStatement.CLAIM_LOST) {
                throw new LostInTransaction();
            }
        } catch (Throwable e) {
            if (!status.isCompleted()) {
                rollBack(transaction, status, e);
            }
            throw e;
        }
        transaction.manager().commit(status);
        if (last == LastStatement.WRITTEN_BLINDLY) {
            freeSuccessorOf(running);
        }
        return null;
    }

    private void freeSuccessorOf(Running running) {
        try {
            stores.control.freeSuccessorOf(running.id());
        } catch (DataAccessException e) {
            // It is committed: this is not the handler's failure.
            log.debug("job {} {}: the sweeper will free what waits for it", running.name(), running.id(), e);
        }
    }

    private static void rollBack(JobHandler.Transaction transaction, TransactionStatus status, Throwable cause) {
        try {
            transaction.manager().rollback(status);
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }

    private static final class LostInTransaction extends RuntimeException {
        private static final long serialVersionUID = 1L;

        LostInTransaction() {
            super("claim lost", null, false, false);
        }
    }

    private Finish finish(Running running, @Nullable Object returned) {
        Outcome outcome = returned instanceof Outcome decided ? decided : new Outcome.Completed(returned);
        if (outcome instanceof Outcome.Completed completed) {
            Object result = completed.result();
            String text = null;
            if (result != null) {
                try {
                    text = json.write(result);
                } catch (IllegalArgumentException e) {
                    throw new PermanentJobFailure("its result " + e.getMessage(), e);
                }
            }
            return finish(running, JobStatus.COMPLETED, text, null, 0, 0);
        } else if (outcome instanceof Outcome.Snoozed snoozed) {
            return finish(
                    running, JobStatus.PENDING, null, null, snoozed.delay().toMillis(), 1);
        } else if (outcome instanceof Outcome.Retried retried) {
            return retry(running, retried.reason(), retried.delay().toMillis());
        }
        return finish(running, JobStatus.FAILED, null, ((Outcome.Failed) outcome).reason(), 0, 0);
    }

    private Finish failure(Running running, Throwable failure) {
        Stop stop = running.stopReason();
        if (stop == Stop.DRAIN) {
            log.info("job {} {}: interrupted by the drain; another node will run it", running.name(), running.id());
            running.ended(Ending.RETURNED, null);
            return returned(running, Duration.ZERO);
        }
        Throwable cause = failure;
        if (stop == Stop.TIMEOUT) {
            cause = new JobTimeout(
                    "the attempt took longer than " + running.handler().limits().timeout(), failure);
        }
        running.ended(Ending.FAILED, cause);
        if (cause instanceof PermanentJobFailure || running.handler().limits().isPermanent(cause)) {
            log.warn("job {} {}: failed for good", running.name(), running.id(), failure);
            return finish(running, JobStatus.FAILED, null, text(cause), 0, 0);
        }
        JobHandler.Limits limits = running.handler().limits();
        double wait = limits.backoff().delay(running.attempt(), cause).toMillis();
        long jittered = (long) (wait * (1 + limits.jitter() * (2 * random.nextDouble() - 1)));
        return retry(running, text(cause), Math.max(0, jittered));
    }

    private static final class JobTimeout extends RuntimeException {
        private static final long serialVersionUID = 1L;

        JobTimeout(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private Finish retry(Running running, String error, long delayMillis) {
        boolean last = running.attempt() >= running.maxAttempts();
        String first = error.lines().findFirst().orElse("");
        if (last) {
            log.warn(
                    "job {} {}: failed, attempt {} was the last: {}",
                    running.name(),
                    running.id(),
                    running.attempt(),
                    first);
            return finish(running, JobStatus.FAILED, null, error, 0, 0);
        }
        log.info(
                "job {} {}: attempt {} of {} failed, the next one in {} ms: {}",
                running.name(),
                running.id(),
                running.attempt(),
                running.maxAttempts(),
                delayMillis,
                first);
        monitor.retried(running.name());
        return finish(running, JobStatus.PENDING, null, error, delayMillis, 0);
    }

    private Finish finish(
            Running running,
            JobStatus status,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            int givenBack) {
        running.ended(ending(status, givenBack), running.failure());
        if (status == JobStatus.PENDING) {
            running.comesBack();
        }
        return new Finish(
                running.key(),
                status,
                result,
                error == null ? null : storable(error),
                delayMillis,
                givenBack,
                status == JobStatus.COMPLETED ? null : running.lateCheckpoint(),
                running.takeProgress(),
                retention(running, status),
                (host.nanos() - running.startedAt()) / 1_000_000);
    }

    private static Ending ending(JobStatus status, int givenBack) {
        return switch (status) {
            case COMPLETED -> Ending.COMPLETED;
            case PENDING -> givenBack > 0 ? Ending.SNOOZED : Ending.RETRIED;
            case CLAIMED, RUNNING, FAILED, CANCELLED, ABANDONED -> Ending.FAILED;
        };
    }

    /** Zero means deletion at completion; what has failed is kept as the cluster is configured. */
    private static @Nullable Duration retention(Running running, JobStatus status) {
        Duration own = running.handler().limits().retention();
        boolean kept = status == JobStatus.COMPLETED || (status.isFinal() && own != null && !own.isZero());
        return kept ? own : null;
    }

    private static String storable(String error) {
        String clean = error.replace('\0', ' ');
        return clean.length() <= LONGEST_ERROR
                ? clean
                : clean.substring(0, LONGEST_ERROR) + "\n... (%d characters)".formatted(clean.length());
    }

    private static String text(Throwable failure) {
        var text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    private void settled(Running running, boolean written) {
        if (written) {
            forget(running);
            if (running.isBack()) {
                // A look finds out when it is due: nobody else tells us.
                wake();
            }
        } else {
            lose(running, "not this node's when it had ended");
        }
    }

    private void lose(Running running, String why) {
        running.stop(Stop.LOST);
        running.withdraw();
        if (forget(running)) {
            log.warn(
                    "job {} {} epoch {}: claim lost, {}; result dropped",
                    running.name(),
                    running.id(),
                    running.epoch(),
                    why);
            monitor.claimLost(running.name());
        }
    }

    private boolean forget(Running running) {
        boolean known = inFlight.remove(running.key(), running);
        if (known && inFlight.isEmpty()) {
            lock.lock();
            try {
                idle.signalAll();
            } finally {
                lock.unlock();
            }
        }
        return known;
    }

    // Keeping -----------------------------------------------------------------------------------------------

    private boolean isHeld(Running running) {
        return running.handler().isTransactional()
                || host.nanos() - running.confirmedAt()
                        < settings.leases().duration().toNanos() * 4 / 5;
    }

    /** Several times a second: ends what takes too long or may be another's by now. Asks nobody, so that nothing delays it. */
    void watch() {
        boolean trusted = host.isTrusted();
        long now = host.nanos();
        for (Running running : inFlight.values()) {
            if (running.isEnding()) {
                continue;
            }
            if (!trusted || !isHeld(running)) {
                lose(running, trusted ? "its lease could not be renewed in time" : "the database is out of reach");
                continue;
            }
            Duration timeout = running.handler().limits().timeout();
            boolean runs = running.stage() == Running.Stage.STARTED;
            if (runs && timeout != null && now - running.startedAt() > timeout.toNanos()) {
                running.stop(Stop.TIMEOUT);
            }
        }
    }

    /** Writes what has gathered: starts and progress. Finds out whether jobs that may be cancelled are. */
    void note() {
        for (UUID doubtful = doubts.poll(); doubtful != null; doubtful = doubts.poll()) {
            check(doubtful);
        }
        long now = host.nanos();
        var started = new LinkedHashMap<UUID, List<Running>>();
        inFlight.values().stream()
                .filter(running ->
                        running.isUnmarked() && !running.isEnding() && now - running.startedAt() > MARK_AFTER.toNanos())
                .forEach(running -> started.computeIfAbsent(running.node(), n -> new ArrayList<>())
                        .add(running));
        started.forEach((node, runnings) -> {
            stores.control.start(node, runnings.stream().map(Running::key).toList());
            runnings.forEach(Running::marked);
        });
        inFlight.values().stream().filter(Running::hasProgress).forEach(running -> {
            String progress = running.takeProgress();
            if (progress != null) {
                stores.control.note(running.node(), running.key(), progress, null);
            }
        });
    }

    /** Shows that the jobs of this node are being worked on, and finds out which are not its any more. */
    void renew() {
        var nodes = new HashSet<UUID>();
        inFlight.values().forEach(running -> nodes.add(running.node()));
        UUID claimant = host.claimant();
        if (claimant != null) {
            nodes.add(claimant);
        }
        nodes.forEach(this::renew);
    }

    private void renew(UUID node) {
        List<Running> mine = inFlight.values().stream()
                .filter(running -> running.node().equals(node))
                .toList();
        // A transactional handler's row must not change under it; its node's life covers it.
        Map<ClaimKey, Running> plain = byKey(mine, false);
        Map<ClaimKey, Running> transactional = byKey(mine, true);
        long sent = host.nanos();
        if (!plain.isEmpty()) {
            Set<ClaimKey> lost =
                    stores.control.renew(node, plain.keySet(), settings.leases().duration());
            plain.forEach((key, running) -> {
                if (!lost.contains(key)) {
                    running.confirmed(sent);
                }
            });
            drop(plain, lost);
        }
        if (!transactional.isEmpty()) {
            drop(transactional, stores.control.missing(node, transactional.keySet()));
        }
        int unknown = stores.control.returnUnknown(
                node, inFlight.values().stream().map(Running::id).toList(), UNKNOWN_AFTER);
        if (unknown > 0) {
            log.warn("{} jobs were claimed for this node without its knowing; returned", unknown);
        }
    }

    private static Map<ClaimKey, Running> byKey(List<Running> runnings, boolean transactional) {
        var byKey = new LinkedHashMap<ClaimKey, Running>();
        runnings.stream()
                .filter(running -> running.handler().isTransactional() == transactional)
                .forEach(running -> byKey.put(running.key(), running));
        return byKey;
    }

    // Those that have ended meanwhile are not lost: their end was written before, or is being written now.
    private void drop(Map<ClaimKey, Running> asked, Set<ClaimKey> lost) {
        lost.forEach(key -> {
            Running running = asked.get(key);
            if (running != null && inFlight.get(key) == running && !running.isEnding()) {
                lose(running, "cancelled, or given to another node");
            }
        });
    }

    /** A job was called off somewhere: if it is one of ours, its handler ends with the next {@link #note()}. */
    void doubt(UUID job) {
        doubts.add(job);
    }

    private void check(UUID job) {
        List<Running> affected = inFlight.values().stream()
                .filter(running -> running.id().equals(job))
                .toList();
        affected.forEach(running ->
                drop(Map.of(running.key(), running), stores.control.missing(running.node(), List.of(running.key()))));
    }

    void throttle(boolean whether) {
        bays.values().forEach(bay -> bay.lane.throttle(whether));
    }

    int inFlight() {
        return inFlight.size();
    }

    /** Slots and jobs by lane, for people. */
    Map<String, Map<String, Integer>> lanes() {
        var lanes = new LinkedHashMap<String, Map<String, Integer>>();
        bays.forEach((name, bay) -> lanes.put(name, Map.of("slots", bay.lane.slots(), "jobs", bay.lane.inFlight())));
        return lanes;
    }
}

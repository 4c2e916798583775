package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.internal.engine.WorkSettings.LaneSettings;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.Claiming;
import dev.forge.cluster.internal.store.JobStore.Finish;
import dev.forge.cluster.internal.store.JobStore.Head;
import dev.forge.cluster.internal.store.JobStore.Queue;
import dev.forge.cluster.internal.store.JobStore.Queues;
import dev.forge.cluster.internal.store.JobStore.Reading;
import dev.forge.cluster.internal.store.JobStore.Recovered;
import dev.forge.cluster.internal.store.ServerFailure;
import dev.forge.cluster.internal.store.TransientFailure;
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
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * The thread that finds due jobs and claims as many as the lanes have room for.
 *
 * <p>A look finds the queues that have something due, and when the next job will be. As long as claims from them come
 * back full no further look is needed; a wake-up, a claim that came back short, the time of the next job and every few
 * seconds bring one.
 *
 * <p>In a pass the lanes take turns, claim by claim. It ends after 50 ms, after 32 claims, or when a wake-up has come and the
 * {@link LookBudget} allows a look, however much there is to claim: an urgent job waits for a claim or two and a look.
 */
final class Claimer {

    private static final Logger log = GuardedLogger.of(Claimer.class);
    private static final int LARGEST_CLAIM = 500;
    /** Every so many claims the oldest job comes first, however unimportant it is. */
    private static final int AGING = 16;

    private static final Duration LOOK_AT_LEAST = Duration.ofSeconds(5);
    /** What a look at the whole of the queues may cost; see {@link #look}. */
    private static final Duration CHEAP_LOOK = Duration.ofMillis(5);
    /** After an expensive one the next waits this many times as long. */
    private static final int WHOLE_LOOK_COST = 4;

    /**
     * How many queues a look goes through, more or less: a look at a thousand takes ten to twenty milliseconds. It sees the most
     * urgent ones of each name, and of the others a few more each time.
     */
    private static final int MOST_QUEUES = 1_000;
    /** When the next few of them are looked at. */
    private static final Duration NEXT_QUEUES = Duration.ofMillis(250);

    /** After a look that was cancelled because it took too long, looks reach back so far at first; see {@link #lookBack}. */
    private static final Duration SHORTEST_REACH = Duration.ofSeconds(1);

    private static final Duration LONGEST_REACH = Duration.ofDays(30);
    /** Such a look reaches twice as far next time if it took less than this. */
    private static final Duration FAST_LOOK_BACK = Duration.ofMillis(200);
    /** When a whole look is tried again after one that took too long. */
    private static final Duration WHOLE_LOOK_AGAIN = Duration.ofMinutes(1);

    private static final int MOST_MARKS = 2 * MOST_QUEUES;
    /** A pass ends after so much time or so many claims, so that nothing that begins a pass waits for long. */
    private static final Duration LONGEST_PASS = Duration.ofMillis(50);

    private static final int MOST_CLAIMS = 32;
    private static final Duration AFTER_FAILURE = Duration.ofMillis(500);
    /** A queue whose claims fail again and again is tried this often. */
    private static final Duration LONGEST_REST = Duration.ofSeconds(5);

    private static final int LARGEST_BACKLOG = 5_000;
    private static final Duration PASS_PATIENCE = Duration.ofSeconds(15);
    private static final Duration LAST_CHANCES_APART = Duration.ofSeconds(1);
    /** While claimed jobs hold more bytes than this, only those are claimed that start at once. */
    private static final long MOST_BYTES_AHEAD = 32_000_000;
    /**
     * For so long after a claim that failed jobs are claimed without being read, and then read one by one: the one that made it
     * fail must be found. Long enough for jobs to come back whose claim was lost with the answer to it.
     */
    private static final Duration CAUTIOUS = LeaseKeeper.UNKNOWN_AFTER.multipliedBy(2);

    /** How many such jobs one claim takes: each is a round trip, and urgent jobs of other queues wait meanwhile. */
    private static final int LARGEST_CAUTIOUS_CLAIM = 32;

    private static final int LONGEST_REASON = 2_000;
    /** One failure may be a restart of the server. */
    private static final int REPEATED = 3;

    private final Worker.Setup setup;
    private final JobStore jobs;
    private final Worker.Host host;
    private final Claims claims;
    private final Execution execution;
    private final List<Bay> bays;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean awake;
    private boolean news;
    private volatile boolean quiet;
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;
    private volatile long lastPass;

    // Of the claiming thread alone.
    private boolean looked;
    private long lastLook;
    private final LookBudget budget = new LookBudget();
    private long lastWholeLook;
    private long wholeLookTook;
    private @Nullable Long nextDue;
    /** How far looks reach back; null: they are whole, or begin at the marks. */
    private @Nullable Duration reach;

    private long wholeLookFailed;
    private int passes;
    private final Map<Queue, Caution> cautions = new HashMap<>();

    /** Queues whose last claim has failed. Written by the claiming thread alone, and read by others. */
    private final Map<Queue, Trouble> troubles = new ConcurrentHashMap<>();

    private final AtomicInteger failures = new AtomicInteger();
    private volatile String lastFailure = "";
    private final AtomicInteger unreadable = new AtomicInteger();

    /**
     * What is claimed for a lane.
     *
     * @param names of jobs; asked when the claimer starts
     * @param capabilities that jobs may ask for; {@code ""}: none
     * @param mayClaim asked before each look and claim: whoever makes it true should {@link #wake()}
     */
    record Intake(
            LaneSettings lane,
            Supplier<? extends Collection<String>> names,
            List<String> capabilities,
            BooleanSupplier mayClaim) {}

    /** A lane with what is claimed for it, and what is known of the queues. */
    private static final class Bay {
        final Intake intake;
        final Lane lane;
        List<String> names = List.of();
        boolean open;
        /** Queues that have something due, and from where on. */
        final Map<Queue, Instant> due = new LinkedHashMap<>();
        /** Queues that were ever seen, and before when nothing is known to be in them. */
        final Map<Queue, Instant> marks = new HashMap<>();
        /** Where the next whole look goes on that did not see all queues of a name. */
        Map<JobStore.Place, Integer> continued = Map.of();
        /** Queues that are not to be claimed from in this pass. */
        final Set<Queue> skipped = new HashSet<>();

        int claims;

        Bay(Intake intake, Lane lane) {
            this.intake = intake;
            this.lane = lane;
        }

        boolean hasRoom() {
            return open && !names.isEmpty() && lane.room() > 0;
        }
    }

    /** How carefully the next jobs of a queue are claimed, after a claim of it that failed. */
    private static final class Caution {
        final long until;
        /** One at first, and twice as many after each claim that did not fail. */
        int limit = 1;

        Caution(long until) {
            this.until = until;
        }
    }

    /**
     * What keeps a queue from being claimed.
     *
     * @param failures in a row
     * @param restsUntil the other queues come first meanwhile
     */
    private record Trouble(int failures, long restsUntil, String reason) {}

    /** @param execution runs what is claimed */
    Claimer(Worker.Setup setup, Worker.Host host, Claims claims, Execution execution, List<Intake> intakes) {
        this.setup = setup;
        this.jobs = setup.stores().control();
        this.host = host;
        this.claims = claims;
        this.execution = execution;
        this.bays = intakes.stream()
                .map(intake -> new Bay(intake, new Lane(intake.lane, host::nanos, execution::run, this::hungry)))
                .toList();
    }

    // Life --------------------------------------------------------------------------------------------------

    /** Once. */
    void start() {
        bays.forEach(bay -> {
            bay.names = List.copyOf(bay.intake.names.get());
            bay.lane.open();
        });
        lastPass = host.nanos();
        Thread starting = new Thread(this::run, "forge-cluster-claim");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    /** Claims nothing more. */
    void quiesce() {
        quiet = true;
    }

    void stop(Duration patience) throws InterruptedException {
        stopping = true;
        wake();
        Thread ending = thread;
        thread = null;
        if (ending != null) {
            ending.join(patience.toMillis());
        }
    }

    void closeLanes() {
        bays.forEach(bay -> bay.lane.close());
    }

    /** Whether its thread is dead, or has done nothing for much longer than it should. */
    boolean isStuck() {
        Thread claiming = thread;
        return claiming != null
                && (!claiming.isAlive()
                        || host.nanos() - lastPass
                                > pollInterval().plus(PASS_PATIENCE).toNanos());
    }

    /** What keeps it from claiming, if it has failed several times in a row. */
    @Nullable
    String claimProblem() {
        int times = failures.get();
        if (times >= REPEATED) {
            return "claims have failed %d times in a row: %s".formatted(times, lastFailure);
        }
        return troubles.entrySet().stream()
                .filter(entry -> entry.getValue().failures >= REPEATED)
                .min(Comparator.comparing(entry -> entry.getKey().name()))
                .map(entry -> "claims have failed %d times in a row for jobs named '%s': %s"
                        .formatted(entry.getValue().failures, entry.getKey().name(), entry.getValue().reason))
                .orElse(null);
    }

    /** How many times a job could not be read. */
    int unreadable() {
        return unreadable.get();
    }

    void throttle(boolean whether) {
        bays.forEach(bay -> bay.lane.throttle(whether));
    }

    /** Slots and jobs by lane, for people. */
    Map<String, Map<String, Integer>> lanes() {
        var lanes = new LinkedHashMap<String, Map<String, Integer>>();
        bays.forEach(bay -> lanes.put(bay.lane.name(), Map.of("slots", bay.lane.slots(), "jobs", bay.lane.inFlight())));
        return lanes;
    }

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

    private void run() {
        while (!stopping) {
            Duration pause = passOrPause();
            lastPass = host.nanos();
            try {
                sleep(pause);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Fail closed: what was claimed without our knowing goes back, see LeaseKeeper.renew(). */
    private Duration passOrPause() {
        try {
            host.introduce();
            Duration pause = pass();
            int failed = failures.getAndSet(0);
            if (failed > 0) {
                log.info("worker: claims again after {} failures", failed);
            }
            return pause;
        } catch (RuntimeException | Error e) {
            // An Error too: without this thread nothing would run, and nobody know why.
            report(e);
            return AFTER_FAILURE;
        }
    }

    /** Logs it once: an outage must not fill the log. */
    private void report(Throwable failure) {
        int failed = failures.incrementAndGet();
        try {
            lastFailure = firstLine(failure);
            if (failed > 1) {
                log.debug("worker: could not claim {} times in a row", failed, failure);
            } else if (ServerFailure.caused(failure)) {
                log.warn("worker: could not claim; trying again: {}", ServerFailure.brief(failure));
            } else {
                log.warn("worker: could not claim; trying again", ErrorText.loggable(failure));
            }
        } catch (RuntimeException | Error e) {
            // Out of memory, say. This thread goes on.
            lastFailure = failure.getClass().getName();
        }
    }

    private void sleep(Duration pause) throws InterruptedException {
        lock.lock();
        try {
            long nanos = pause.toNanos();
            while (!awake && !stopping && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
            awake = false;
        } finally {
            lock.unlock();
        }
    }

    private Duration pollInterval() {
        return setup.settings().pollInterval();
    }

    // A pass ------------------------------------------------------------------------------------------------

    /** Claims what there is room for; answers for how long there is nothing to do. */
    Duration pass() {
        UUID node = quiet ? null : host.claimant();
        if (node == null) {
            return pollInterval();
        }
        openAndClose();
        returnOverdue();
        if (bays.stream().noneMatch(Bay::hasRoom)) {
            return untilLanes();
        }
        if (execution.backlog() > LARGEST_BACKLOG) {
            // What has ended first: otherwise a table that cannot be written fills this node's memory.
            return AFTER_FAILURE;
        }
        boolean fresh = lookIfDue();
        if (claimInTurns(node)) {
            // There may be more, but what has come meanwhile goes first.
            return Duration.ZERO;
        }
        if (!fresh
                && bays.stream()
                        .anyMatch(bay ->
                                bay.hasRoom() && bay.due.keySet().stream().allMatch(troubles::containsKey))) {
            // They came back short: only a look can tell whether there is nothing more.
            wantLook();
        }
        return untilNextPass();
    }

    /**
     * Lets the lanes take turns, claim by claim, until nothing is left that could be claimed, the pass has lasted long enough, or
     * it is time to look; answers whether there may be more.
     */
    private boolean claimInTurns(UUID node) {
        long began = host.nanos();
        for (Bay bay : bays) {
            bay.skipped.clear();
            if (!troubles.isEmpty()) {
                bay.due.keySet().stream().filter(this::rests).forEach(bay.skipped::add);
            }
        }
        // The first turn goes round, too.
        int first = Math.floorMod(passes++, bays.size());
        int made = 0;
        boolean more = true;
        while (more) {
            more = false;
            for (int i = 0; i < bays.size(); i++) {
                if (claimOnce(bays.get((first + i) % bays.size()), node)) {
                    more = true;
                    made++;
                }
            }
            long now = host.nanos();
            if (made >= MOST_CLAIMS || now - began > LONGEST_PASS.toNanos() || isLookDue(now)) {
                return more;
            }
        }
        return false;
    }

    /**
     * Until the next pass if there is nothing to claim for; sooner if claimed jobs wait for a thread that could not be started, or
     * will have waited for too long.
     */
    private Duration untilLanes() {
        Duration pause = pollInterval();
        for (Bay bay : bays) {
            Duration overdue = bay.lane.untilOverdue();
            pause = overdue == null ? pause : min(pause, overdue);
            pause = bay.lane.lacksThreads() ? min(pause, AFTER_FAILURE) : pause;
        }
        return pause;
    }

    /** Returns prefetched jobs whose executor has become slow: another node may be idle, and urgent jobs need the room. */
    private void returnOverdue() {
        for (Bay bay : bays) {
            List<Running> overdue =
                    bay.lane.takeOverdue().stream().filter(Running::withdraw).toList();
            if (!overdue.isEmpty()) {
                log.debug("worker: returned {} claimed jobs that waited for a slot for too long", overdue.size());
                claims.giveBack(overdue);
                host.freed();
            }
        }
    }

    private Duration untilNextPass() {
        long now = host.nanos();
        Duration pause = untilLanes();
        Long due = nextDue;
        if (due != null) {
            pause = min(pause, Duration.ofNanos(Math.max(0, due - now)));
        }
        if (!troubles.isEmpty()) {
            for (Bay bay : bays) {
                for (Queue queue : bay.hasRoom() ? bay.due.keySet() : Set.<Queue>of()) {
                    Trouble trouble = troubles.get(queue);
                    pause = trouble == null
                            ? pause
                            : min(pause, Duration.ofNanos(Math.max(0, trouble.restsUntil - now)));
                }
            }
        }
        return isLookWanted() && bays.stream().anyMatch(Bay::hasRoom) ? min(pause, budget.untilNext(now)) : pause;
    }

    private void openAndClose() {
        for (Bay bay : bays) {
            bay.lane.startMissingThreads();
            boolean open = bay.intake.mayClaim.getAsBoolean();
            if (open && !bay.open) {
                // Nobody has looked for it while it was closed.
                wantLook();
            } else if (!open) {
                bay.due.clear();
            }
            bay.open = open;
        }
    }

    private void wantLook() {
        lock.lock();
        try {
            news = true;
        } finally {
            lock.unlock();
        }
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private boolean isLookWanted() {
        lock.lock();
        try {
            return news;
        } finally {
            lock.unlock();
        }
    }

    /** Whether somebody wants a look, or its time has come, and looks have not taken too much of it lately. */
    private boolean isLookDue(long now) {
        Long due = nextDue;
        lock.lock();
        try {
            news |= !looked
                    || now - lastLook > min(LOOK_AT_LEAST, pollInterval()).toNanos()
                    || (due != null && now - due >= 0);
            return news && budget.untilNext(now).isZero();
        } finally {
            lock.unlock();
        }
    }

    private boolean lookIfDue() {
        long now = host.nanos();
        if (!isLookDue(now)) {
            return false;
        }
        lock.lock();
        try {
            news = false;
        } finally {
            lock.unlock();
        }
        try {
            look(now);
            return true;
        } catch (RuntimeException | Error e) {
            budget.failed(now, host.nanos());
            // Whoever wanted it still does.
            wantLook();
            if (JobStore.isTimeout(e)) {
                shortenReach(now, e);
                return false;
            }
            // What is known to be due can still be claimed.
            if (!(e instanceof DataAccessException) || bays.stream().allMatch(bay -> bay.due.isEmpty())) {
                throw e;
            }
            log.debug("worker: a look failed", e);
            return false;
        }
    }

    /**
     * Looks at the queues: at the whole of them, unless that has become expensive because a snapshot somewhere keeps dead
     * entries in the index. Then whole looks are rare, and those in between begin at the marks, which suffices for all that
     * came in the order of its time. Each of these leaves a whole look to be done.
     */
    private void look(long now) {
        Duration back = reach;
        if (back != null && now - wholeLookFailed < WHOLE_LOOK_AGAIN.toNanos()) {
            lookBack(now, back);
            return;
        }
        long wholeAgain = lastWholeLook + Math.min(wholeLookTook * WHOLE_LOOK_COST, LOOK_AT_LEAST.toNanos());
        boolean whole = !looked || back != null || wholeLookTook < CHEAP_LOOK.toNanos() || now - wholeAgain >= 0;
        Long next = whole ? null : Long.valueOf(wholeAgain);
        for (Bay bay : bays) {
            if (!bay.open || bay.names.isEmpty()) {
                continue;
            }
            int places = bay.names.size() * bay.intake.capabilities.size();
            Queues queues = jobs.queues(new JobStore.Look(
                    bay.names,
                    bay.intake.capabilities,
                    whole ? Map.of() : bay.marks,
                    Math.max(1, MOST_QUEUES / places),
                    whole ? bay.continued : Map.of()));
            if (whole) {
                bay.continued = queues.unseen();
            }
            if (bay.marks.size() > MOST_MARKS) {
                bay.marks.clear();
            }
            bay.marks.putAll(queues.marks());
            next = earlier(next, found(bay, queues, now));
            if (!bay.continued.isEmpty()) {
                next = earlier(next, now + NEXT_QUEUES.toNanos());
            }
        }
        forgetTroubles();
        nextDue = next;
        looked = true;
        lastLook = host.nanos();
        long took = lastLook - now;
        if (whole) {
            lastWholeLook = lastLook;
            wholeLookTook = took;
            reach = null;
        }
        if (!whole || took < CHEAP_LOOK.toNanos()) {
            // Expensive ones have a pace of their own.
            budget.spent(now, lastLook);
        }
    }

    /**
     * Looks at the jobs of the last time only, where a look at the whole would take too long: a node that has just started has no
     * marks from which it could look. It reaches back twice as far each time, as long as that is fast, so that it finds older
     * jobs too, all of them but those among the dead entries.
     */
    private void lookBack(long now, Duration back) {
        Long next = null;
        for (Bay bay : bays) {
            if (bay.open && !bay.names.isEmpty()) {
                next = earlier(next, found(bay, jobs.recentQueues(bay.names, bay.intake.capabilities, back), now));
            }
        }
        forgetTroubles();
        looked = true;
        lastLook = host.nanos();
        budget.spent(now, lastLook);
        if (lastLook - now < FAST_LOOK_BACK.toNanos() && back.compareTo(LONGEST_REACH) < 0) {
            reach = back.multipliedBy(2);
            next = earlier(next, lastLook + NEXT_QUEUES.toNanos());
        }
        nextDue = next;
    }

    /** Queues that have gone need no claim any more. */
    private void forgetTroubles() {
        troubles.keySet().removeIf(queue -> bays.stream().noneMatch(bay -> bay.due.containsKey(queue)));
    }

    private void shortenReach(long now, Throwable failure) {
        Duration back = reach;
        if (back == null) {
            log.warn(
                    "worker: a look for due jobs took too long; recent jobs are claimed first ({}). An old transaction may keep"
                            + " dead rows in forge_jobs: see backend_xmin in pg_stat_activity.",
                    firstLine(failure));
        }
        if (back == null || now - wholeLookFailed >= WHOLE_LOOK_AGAIN.toNanos()) {
            wholeLookFailed = host.nanos();
            reach = SHORTEST_REACH;
        } else {
            Duration half = back.dividedBy(2);
            reach = half.compareTo(SHORTEST_REACH) > 0 ? half : SHORTEST_REACH;
        }
    }

    private static @Nullable Long earlier(@Nullable Long one, @Nullable Long other) {
        return one == null || (other != null && other - one < 0) ? other : one;
    }

    /** Takes over what a look has found; answers when the next job is due. */
    private static @Nullable Long found(Bay bay, Queues queues, long now) {
        bay.due.clear();
        for (Head head : queues.due()) {
            bay.due.put(head.queue(), head.scheduledAt());
        }
        Long millis = queues.nextMillis();
        // A little later, so that it is due then by the database's clock too.
        return millis == null
                ? null
                : Long.valueOf(now + Duration.ofMillis(millis + 1).toNanos());
    }

    /** Claims from the queue of this lane whose turn it is; false if there is none, or no room. */
    private boolean claimOnce(Bay bay, UUID node) {
        while (!quiet && bay.hasRoom() && bay.due.size() > bay.skipped.size() && bay.intake.mayClaim.getAsBoolean()) {
            Queue queue = next(bay);
            if (queue == null) {
                return false;
            }
            JobHandler handler = setup.handlers().named(queue.name());
            if (handler == null) {
                bay.due.remove(queue);
                continue;
            }
            Instant mark = bay.due.getOrDefault(queue, JobStore.UNMARKED);
            // A transactional job's row cannot be marked as running later, so it is claimed only when it starts at
            // once.
            boolean atOnce = handler.isTransactional() || claims.bytes() > MOST_BYTES_AHEAD;
            Caution caution = caution(queue);
            int most = caution == null ? LARGEST_CLAIM : caution.limit;
            int limit = Math.min(atOnce ? bay.lane.idle() : bay.lane.room(), most);
            if (limit == 0) {
                // Its turn comes when a slot is idle. Were others prefetched meanwhile, none ever would be.
                return false;
            }
            var claiming = new Claiming(
                    node,
                    limit,
                    Math.min(bay.lane.idle(), limit),
                    handler.limits().maxAttempts(),
                    handler.isTransactional() ? null : setup.settings().leases().duration(),
                    caution == null);
            bay.claims++;
            claims.claimBegins();
            try {
                if (!quiet) {
                    claim(bay, queue, mark, claiming, handler);
                    recovered(queue);
                }
            } catch (RuntimeException | Error e) {
                beCautious(queue);
                if (ServerFailure.caused(e)) {
                    // No other queue would fare better.
                    throw e;
                }
                failed(queue, e);
                bay.skipped.add(queue);
            } finally {
                if (quiet) {
                    // Whatever was claimed while the drain began.
                    claims.withdraw();
                }
                claims.claimEnds();
            }
            return true;
        }
        return false;
    }

    private void claim(Bay bay, Queue queue, Instant mark, Claiming claiming, JobHandler handler) {
        long sent = host.nanos();
        List<Claimed> claimed = jobs.claim(queue, mark, claiming);
        setup.monitor().claimed(Duration.ofNanos(host.nanos() - sent));
        Caution caution = cautions.get(queue);
        if (caution != null) {
            caution.limit = Math.min(2 * caution.limit, LARGEST_CAUTIOUS_CLAIM);
        }
        if (JobStore.isShort(claimed, claiming.limit())) {
            bay.due.remove(queue);
        } else {
            bay.due.put(queue, claimed.get(claimed.size() - 1).scheduledAt());
        }
        take(bay.lane, claimed, new Origin(new Running.Holder(claiming.node(), host.nodeName()), handler, sent));
    }

    private @Nullable Caution caution(Queue queue) {
        Caution caution = cautions.get(queue);
        if (caution != null && host.nanos() - caution.until >= 0) {
            cautions.remove(queue);
            return null;
        }
        return caution;
    }

    private void beCautious(Queue queue) {
        if (cautions.size() > MOST_MARKS) {
            cautions.clear();
        }
        cautions.put(queue, new Caution(host.nanos() + CAUTIOUS.toNanos()));
    }

    private boolean rests(Queue queue) {
        Trouble trouble = troubles.get(queue);
        return trouble != null && host.nanos() - trouble.restsUntil < 0;
    }

    /** The other queues must not wait for this one, so it rests for a while; logged once, until it can be claimed from again. */
    private void failed(Queue queue, Throwable failure) {
        Trouble earlier = troubles.get(queue);
        int times = earlier == null ? 1 : earlier.failures + 1;
        if (troubles.size() > MOST_MARKS) {
            troubles.clear();
        }
        Duration rest = min(AFTER_FAILURE.multipliedBy(Math.min(times, 100)), LONGEST_REST);
        troubles.put(queue, new Trouble(times, host.nanos() + rest.toNanos(), firstLine(failure)));
        if (times == 1) {
            log.warn(
                    "worker: could not claim jobs named '{}' with priority {}; trying again, other jobs are claimed meanwhile",
                    queue.name(),
                    queue.priority(),
                    ErrorText.loggable(failure));
        } else {
            log.debug("worker: could not claim jobs named '{}' {} times in a row", queue.name(), times, failure);
        }
    }

    private void recovered(Queue queue) {
        Trouble trouble = troubles.isEmpty() ? null : troubles.remove(queue);
        if (trouble != null) {
            log.info("worker: claims jobs named '{}' again after {} failures", queue.name(), trouble.failures);
        }
    }

    /** For people's eyes: what follows the first line may quote what is in a row. */
    private static String firstLine(Throwable failure) {
        return reason(failure).lines().findFirst().orElse("");
    }

    /** The job with all that its handler needs; null if that cannot be read, or the job is not this node's any more. */
    private @Nullable Claimed read(Claimed job, Origin origin) {
        if (job.read()) {
            return job;
        }
        UUID node = origin.holder.id();
        long most = setup.json().mostBytesOfJob();
        String problem;
        try {
            Reading reading = jobs.read(node, job, most);
            if (reading instanceof Reading.Read read) {
                return read.job();
            }
            if (reading instanceof Reading.Lost) {
                return null;
            }
            problem =
                    "its payload, metadata and checkpoint have %d bytes when printed; a node with this forge.cluster.job.max-payload-size reads at most %d"
                            .formatted(((Reading.TooLarge) reading).bytes(), most);
        } catch (RuntimeException | Error e) {
            beCautious(job.queue());
            if (TransientFailure.caused(e)) {
                // The database's fault, not the job's: it is returned without a count, as one that this node does not
                // know.
                throw e;
            }
            problem = reason(e);
        }
        giveUp(job, node, problem);
        return null;
    }

    /** Not this node's fault, as far as it knows: another one may try, but not for ever. */
    private void giveUp(Claimed job, UUID node, String reason) {
        unreadable.incrementAndGet();
        Recovered returned = jobs.returnUnreadable(
                        node, job.key(), setup.settings().leases().crash(), "the job cannot be read: " + reason)
                .orElse(null);
        log.warn(
                "job {} {}: cannot be read, {}; {}",
                job.name(),
                job.id(),
                reason,
                returned == null
                        ? "it is not this node's any more"
                        : returned.status() == JobStatus.PENDING
                                ? "returned for recovery %d".formatted(returned.recoveries())
                                : "it is " + returned.status());
        if (returned != null && returned.status() == JobStatus.PENDING) {
            host.cameBack();
        }
    }

    private static String reason(Throwable failure) {
        Throwable cause = failure instanceof DataAccessException access ? access.getMostSpecificCause() : failure;
        String text = ErrorText.brief(cause).replace('\0', ' ');
        return text.length() <= LONGEST_REASON ? text : text.substring(0, LONGEST_REASON);
    }

    /** By whom, for which handler and when it was claimed. */
    private record Origin(Running.Holder holder, JobHandler handler, long sent) {}

    private void take(Lane lane, List<Claimed> claimed, Origin origin) {
        var postponed = new ArrayList<Finish>();
        for (Claimed unread : claimed) {
            Claimed one = read(unread, origin);
            if (one == null) {
                continue;
            }
            var running = new Running(one, origin.holder, origin.handler, origin.sent, setup.json(), jobs);
            if (claims.isLastChance(one) && claims.hasLastChance()) {
                postponed.add(running.givenBack(LAST_CHANCES_APART));
            } else {
                claims.add(running);
                if (!quiet) {
                    // Otherwise it goes back before it has started.
                    lane.add(running);
                }
            }
        }
        if (!postponed.isEmpty()) {
            jobs.finishUnlocked(origin.holder.id(), postponed);
        }
    }

    /** The most urgent queue, and of these the one that has waited longest; now and then simply the latter. */
    private static @Nullable Queue next(Bay bay) {
        Comparator<Map.Entry<Queue, Instant>> oldest = Map.Entry.comparingByValue();
        Comparator<Map.Entry<Queue, Instant>> urgent =
                Comparator.comparingInt(entry -> -entry.getKey().priority());
        return bay.due.entrySet().stream()
                .filter(entry -> !bay.skipped.contains(entry.getKey()))
                .min(Math.floorMod(bay.claims, AGING) == AGING - 1 ? oldest : urgent.thenComparing(oldest))
                .map(Map.Entry::getKey)
                .orElse(null);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.database.ServerFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.JobClaimStore;
import dev.forge.cluster.internal.job.store.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.store.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.store.JobQueueStore;
import dev.forge.cluster.internal.job.store.JobQueueStore.Queue;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * The thread that claims due jobs, as many as the lanes have room for.
 *
 * <p>A {@link QueueSearch} finds the queues with due jobs. No further search is needed as long as claims from them come back full; a
 * wake-up, a claim that came back short, the time of the next job and a period of a few seconds trigger one.
 *
 * <p>In a pass the lanes take turns, claim by claim. A pass ends after 50 ms, after 32 claims, or when a search is due, however much
 * there is to claim: an urgent job waits for one or two claims and a search.
 */
final class Claimer {

    private static final Logger log = GuardedLogger.of(Claimer.class);

    private static final int LARGEST_CLAIM = 500;

    /** A pass ends after this time or this many claims, so that a search that has become due does not wait for long. */
    private static final Duration LONGEST_PASS = Duration.ofMillis(50);

    private static final int MOST_CLAIMS = 32;
    private static final Duration AFTER_FAILURE = Duration.ofMillis(500);
    private static final int LARGEST_BACKLOG = 5_000;
    private static final Duration LONGEST_SILENCE = Duration.ofSeconds(15);
    private static final Duration LAST_CHANCES_APART = Duration.ofSeconds(1);

    /** While claimed jobs hold more bytes than this, only jobs that start immediately are claimed. */
    private static final long MOST_BYTES_AHEAD = 32_000_000;

    private final Worker.Dependencies dependencies;
    private final Worker.NodeView node;
    private final Claims claims;
    private final JobExecution execution;
    private final List<Lane> lanes;
    private final QueueFailures queueFailures;
    private final QueueSearch search;
    private final ClaimedJobReader reader;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean awake;
    private volatile boolean quiesced;
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;
    private volatile long lastPass;

    /** Used by the claiming thread alone. */
    private int passes;

    private final AtomicInteger failures = new AtomicInteger();
    private volatile String lastFailure = "";

    /** @param execution runs claimed jobs */
    Claimer(
            Worker.Dependencies dependencies,
            Worker.NodeView node,
            Claims claims,
            JobExecution execution,
            List<Lane.Selection> selections) {
        this.dependencies = dependencies;
        this.node = node;
        this.claims = claims;
        this.execution = execution;
        this.lanes = selections.stream()
                .map(selection -> new Lane(
                        selection,
                        new JobExecutor(selection.settings(), node::nanos, execution::run, this::continueClaiming)))
                .toList();
        this.queueFailures = new QueueFailures(node::nanos);
        this.search =
                new QueueSearch(dependencies.stores().queues(), node::nanos, pollInterval(), lanes, queueFailures);
        this.reader = new ClaimedJobReader(dependencies, node, queueFailures);
    }

    // Life cycle --------------------------------------------------------------------------------------------

    /** Starts the thread; may be called once. */
    void start() {
        lanes.forEach(Lane::start);
        lastPass = node.nanos();
        Thread starting = new Thread(this::run, "forge-cluster-claim");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    /** Stops claiming; the thread goes on. */
    void quiesce() {
        quiesced = true;
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
        lanes.forEach(lane -> lane.executor.close());
    }

    /** Returns whether the thread is dead, or has done nothing for much longer than it should. */
    boolean isStuck() {
        Thread claiming = thread;
        return claiming != null
                && (!claiming.isAlive()
                        || node.nanos() - lastPass
                                > pollInterval().plus(LONGEST_SILENCE).toNanos());
    }

    /** Returns what keeps this node from claiming, if claims have failed several times in a row; otherwise null. */
    @Nullable
    String claimProblem() {
        int times = failures.get();
        return times >= QueueFailures.REPEATED
                ? "claims have failed %d times in a row: %s".formatted(times, lastFailure)
                : queueFailures.problem();
    }

    /** Returns how many times a job could not be read. */
    int unreadable() {
        return reader.unreadable();
    }

    void throttle(boolean whether) {
        lanes.forEach(lane -> lane.executor.throttle(whether));
    }

    /** Returns the slots and jobs of each lane. */
    Map<String, Map<String, Integer>> lanes() {
        var usage = new LinkedHashMap<String, Map<String, Integer>>();
        lanes.forEach(lane -> {
            var numbers = new LinkedHashMap<String, Integer>();
            numbers.put("slots", lane.executor.slots());
            numbers.put("jobs", lane.executor.inFlight());
            usage.put(lane.executor.name(), numbers);
        });
        return usage;
    }

    /** Requests a search: jobs were enqueued or returned. */
    void wake() {
        search.request();
        continueClaiming();
    }

    /** Wakes the thread because a lane has room, without a new search. */
    private void continueClaiming() {
        lock.lock();
        try {
            awake = true;
            changed.signal();
        } finally {
            lock.unlock();
        }
    }

    private void run() {
        while (!stopping) {
            Duration pause = passOrPause();
            lastPass = node.nanos();
            try {
                sleep(pause);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Makes a pass. If it fails, claims that this node does not know of are released by {@link LeaseKeeper#renew()}. */
    private Duration passOrPause() {
        try {
            node.setLogContext();
            Duration pause = pass();
            int failed = failures.getAndSet(0);
            if (failed > 0) {
                log.info("Claiming jobs again after {} failures", failed);
            }
            return pause;
        } catch (RuntimeException | Error e) {
            // An Error, too: without this thread no job would run.
            report(e);
            return AFTER_FAILURE;
        }
    }

    /** Logs a failure once: an outage must not fill the log. */
    private void report(Throwable failure) {
        int failed = failures.incrementAndGet();
        try {
            lastFailure = QueueFailures.firstLine(failure);
            if (failed > 1) {
                log.debug("Could not claim jobs {} times in a row", failed, failure);
            } else if (ServerFailure.caused(failure)) {
                log.warn("Could not claim jobs; retrying: {}", ServerFailure.brief(failure));
            } else {
                log.warn("Could not claim jobs; retrying", ErrorText.loggable(failure));
            }
        } catch (RuntimeException | Error e) {
            // For example out of memory. This thread must go on.
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
        return dependencies.settings().pollInterval();
    }

    // A pass ------------------------------------------------------------------------------------------------

    /** Claims what the lanes have room for; returns how long the thread may pause. */
    Duration pass() {
        UUID holder = quiesced ? null : node.claimingNode();
        if (holder == null) {
            return pollInterval();
        }
        openAndClose();
        returnOverdue();
        if (lanes.stream().noneMatch(Lane::hasRoom)) {
            return pauseOfLanes();
        }
        if (execution.backlog() > LARGEST_BACKLOG) {
            // Results first: otherwise a table that cannot be written fills the memory of this node.
            return AFTER_FAILURE;
        }
        boolean fresh = search.runIfDue();
        if (claimInTurns(holder)) {
            // There may be more jobs, but a search that has become due goes first.
            return Duration.ZERO;
        }
        if (!fresh
                && lanes.stream()
                        .anyMatch(lane ->
                                lane.hasRoom() && lane.due.keySet().stream().allMatch(queueFailures::contains))) {
            // Claims came back short: only a search can tell whether there are more jobs.
            search.request();
        }
        return search.limitPause(pauseOfQueues());
    }

    /**
     * Lets the lanes take turns, claim by claim, until no due job is left, the pass has lasted long enough, or a search is due;
     * returns whether there may be more jobs.
     */
    private boolean claimInTurns(UUID holder) {
        long began = node.nanos();
        for (Lane lane : lanes) {
            lane.skipped.clear();
            if (!queueFailures.isEmpty()) {
                lane.due.keySet().stream().filter(queueFailures::isPaused).forEach(lane.skipped::add);
            }
        }
        // The first turn rotates from pass to pass.
        int first = Math.floorMod(passes++, lanes.size());
        int made = 0;
        boolean more = true;
        while (more) {
            more = false;
            for (int i = 0; i < lanes.size(); i++) {
                if (claimOnce(lanes.get((first + i) % lanes.size()), holder)) {
                    more = true;
                    made++;
                }
            }
            if (made >= MOST_CLAIMS || node.nanos() - began > LONGEST_PASS.toNanos() || search.isDue()) {
                return more;
            }
        }
        return false;
    }

    /**
     * Returns the poll interval; less if claimed jobs wait for a thread that could not be started, or will have waited for too long.
     */
    private Duration pauseOfLanes() {
        Duration pause = pollInterval();
        for (Lane lane : lanes) {
            Duration overdue = lane.executor.untilOverdue();
            pause = overdue == null ? pause : min(pause, overdue);
            pause = lane.executor.lacksThreads() ? min(pause, AFTER_FAILURE) : pause;
        }
        return pause;
    }

    private Duration pauseOfQueues() {
        Duration pause = pauseOfLanes();
        if (!queueFailures.isEmpty()) {
            for (Lane lane : lanes) {
                for (Queue queue : lane.hasRoom() ? lane.due.keySet() : Set.<Queue>of()) {
                    pause = queueFailures.contains(queue) ? min(pause, queueFailures.untilTried(queue)) : pause;
                }
            }
        }
        return pause;
    }

    /** Returns prefetched jobs whose executor has become slow: another node may be idle, and urgent jobs need the room. */
    private void returnOverdue() {
        for (Lane lane : lanes) {
            List<RunningJob> overdue = lane.executor.takeOverdue().stream()
                    .filter(RunningJob::withdraw)
                    .toList();
            if (!overdue.isEmpty()) {
                log.debug("Returned {} claimed jobs that waited for a slot for too long", overdue.size());
                claims.giveBack(overdue);
                node.jobsReleased();
            }
        }
    }

    private void openAndClose() {
        for (Lane lane : lanes) {
            lane.executor.startMissingThreads();
            if (lane.updateOpen()) {
                // Searches leave out closed lanes.
                search.request();
            }
        }
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    // A claim -----------------------------------------------------------------------------------------------

    /** Claims from the next queue of a lane; false if there is none, or no room. */
    private boolean claimOnce(Lane lane, UUID holder) {
        while (!quiesced && lane.hasRoom() && lane.due.size() > lane.skipped.size() && lane.mayClaim()) {
            Queue queue = lane.nextQueue();
            if (queue == null) {
                return false;
            }
            JobHandler handler = dependencies.handlers().named(queue.name());
            if (handler == null) {
                lane.due.remove(queue);
                continue;
            }
            Instant mark = lane.due.getOrDefault(queue, JobQueueStore.UNMARKED);
            // The row of a transactional job cannot be marked as running later, so it is claimed only if it starts
            // immediately.
            boolean immediately = handler.isTransactional() || claims.bytes() > MOST_BYTES_AHEAD;
            Integer cautiousLimit = queueFailures.cautiousLimit(queue);
            int limit = Math.min(
                    immediately ? lane.executor.idle() : lane.executor.room(),
                    cautiousLimit == null ? LARGEST_CLAIM : cautiousLimit);
            if (limit == 0) {
                // It waits for an idle slot. If other jobs were prefetched meanwhile, no slot would ever be idle.
                return false;
            }
            var claiming = new Claiming(
                    holder,
                    limit,
                    Math.min(lane.executor.idle(), limit),
                    handler.limits().maxAttempts(),
                    handler.isTransactional()
                            ? null
                            : dependencies.settings().leases().duration(),
                    cautiousLimit == null);
            lane.countClaim();
            claims.claimBegins();
            try {
                if (!quiesced) {
                    claim(lane, queue, mark, claiming, handler);
                    queueFailures.succeeded(queue);
                }
            } catch (RuntimeException | Error e) {
                queueFailures.beCautious(queue);
                if (ServerFailure.caused(e)) {
                    // Claims from other queues would fail, too.
                    throw e;
                }
                queueFailures.failed(queue, e);
                lane.skipped.add(queue);
            } finally {
                if (quiesced) {
                    // The drain began during the claim.
                    claims.withdraw();
                }
                claims.claimEnds();
            }
            return true;
        }
        return false;
    }

    private void claim(Lane lane, Queue queue, Instant mark, Claiming claiming, JobHandler handler) {
        long sent = node.nanos();
        List<Claimed> claimed = dependencies.stores().claims().claim(queue, mark, claiming);
        dependencies.monitor().claimed(Duration.ofNanos(node.nanos() - sent));
        queueFailures.relax(queue);
        if (JobClaimStore.isShort(claimed, claiming.limit())) {
            lane.due.remove(queue);
        } else {
            lane.due.put(queue, claimed.get(claimed.size() - 1).scheduledAt());
        }
        take(
                lane.executor,
                claimed,
                new Origin(new RunningJob.Holder(claiming.node(), node.nodeName()), handler, sent));
    }

    /** The node and the handler that jobs were claimed for, and when the claim was sent. */
    private record Origin(RunningJob.Holder holder, JobHandler handler, long sent) {}

    private void take(JobExecutor executor, List<Claimed> claimed, Origin origin) {
        var postponed = new ArrayList<Finish>();
        for (Claimed unread : claimed) {
            Claimed job = reader.read(unread, origin.holder.id());
            if (job == null) {
                continue;
            }
            var running = new RunningJob(
                    job,
                    origin.holder,
                    origin.handler,
                    origin.sent,
                    new RunningJob.Persistence(
                            dependencies.json(), dependencies.stores().claims()));
            if (claims.isLastChance(job) && claims.hasLastChance()) {
                postponed.add(running.givenBack(LAST_CHANCES_APART));
            } else {
                claims.add(running);
                if (!quiesced) {
                    // Otherwise it is returned before it starts.
                    executor.add(running);
                }
            }
        }
        if (!postponed.isEmpty()) {
            dependencies.stores().finishes().finishUnlocked(origin.holder.id(), postponed);
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turns;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobQueueStore.DueJob;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.Attempt;
import dev.forge.cluster.internal.job.run.Claims;
import dev.forge.cluster.internal.job.run.JobExecutor;
import dev.forge.cluster.internal.job.run.JobRunner;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.RowLog;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Claims due jobs, as many as the lanes have room for.
 *
 * <p>A {@link QueueSearch} finds the queues with due jobs. No further search is needed as long as claims from them come back full; a
 * wake-up, a claim that came back short, the time of the next job and a period of a few seconds trigger one.
 *
 * <p>In a pass the lanes take turns, claim by claim. A pass ends after 50 ms, after 32 claims, or when a search is due, however much
 * there is to claim: an urgent job waits for one or two claims and a search.
 */
final class ClaimingPass {

    /** How long the claiming thread pauses after a failure. */
    static final Duration AFTER_FAILURE = Duration.ofMillis(500);

    private static final Logger log = GuardedLogger.of(ClaimingPass.class);

    private static final int LARGEST_CLAIM = 500;

    /** A pass ends after this time or this many claims, so that a search that has become due does not wait for long. */
    private static final Duration LONGEST_PASS = Duration.ofMillis(50);

    private static final int MOST_CLAIMS = 32;
    private static final int LARGEST_BACKLOG = 5_000;
    private static final Duration LAST_CHANCES_APART = Duration.ofSeconds(1);

    /** While claimed jobs hold more bytes than this, only jobs that start immediately are claimed. */
    private static final long MOST_BYTES_AHEAD = 32_000_000;

    private final WorkerParts dependencies;
    private final WorkerNode node;
    private final Claims claims;
    private final JobRunner runner;
    private final LimitedNames limited;
    private final List<Lane> lanes;
    private final QueueFailures queueFailures;
    private final Duration pollInterval;
    private final QueueSearch search;
    private final ClaimedJobReader reader;
    private final RowLog rows = new RowLog();

    /** A queue with new jobs. */
    private final AtomicReference<@Nullable Queue> hint = new AtomicReference<>();

    private volatile boolean quiesced;

    /** Used by the claiming thread alone. */
    private int passes;

    /** What the last claim has taken, and the only job that it may take; for tests. */
    private List<UUID> lastTaken = List.of();

    private @Nullable UUID wanted;

    /** The claims that the node holds, what runs them, and which of them have a limit. */
    record Work(JobRunner runner, LimitedNames limited) {}

    ClaimingPass(WorkerParts dependencies, WorkerNode node, Work work, List<Lane> lanes, QueueFailures queueFailures) {
        this.dependencies = dependencies;
        this.node = node;
        this.claims = work.runner.claims();
        this.runner = work.runner;
        this.limited = work.limited;
        this.lanes = lanes;
        this.queueFailures = queueFailures;
        this.pollInterval = dependencies.settings().pollInterval();
        this.search = new QueueSearch(dependencies.stores().queues(), node::nanos, pollInterval, lanes, queueFailures);
        this.reader = new ClaimedJobReader(dependencies, node, queueFailures);
    }

    /** Stops claiming, in this pass and in all later ones. */
    void quiesce() {
        quiesced = true;
    }

    /** Makes the next pass search. */
    void requestSearch() {
        search.request();
    }

    /**
     * Makes the next pass claim from that queue, without a search if possible. Returns false if no lane takes jobs of the queue. Any
     * thread may call this.
     */
    boolean hint(Queue queue) {
        if (lanes.stream().noneMatch(lane -> lane.takes(queue))) {
            return false;
        }
        Queue other = hint.compareAndExchange(null, queue);
        if (other != null && !other.equals(queue)) {
            search.request();
        }
        return true;
    }

    /** Returns how many times a job could not be read. */
    int unreadable() {
        return reader.unreadable();
    }

    /** Claims what the lanes have room for; returns how long the claiming thread may pause. */
    Duration run() {
        UUID holder = quiesced ? null : node.claimingNode();
        if (holder == null) {
            if (quiesced) {
                limited.refreshRecorded();
            }
            // Nothing wakes the claiming thread when the node is in contact with the database again.
            return quiesced ? pollInterval : min(pollInterval, AFTER_FAILURE);
        }
        limited.refresh(holder);
        openAndClose();
        returnOverdue();
        if (lanes.stream().noneMatch(Lane::hasRoom)) {
            return pauseOfLanes();
        }
        if (runner.backlog() > LARGEST_BACKLOG) {
            // Results first: otherwise a table that cannot be written fills the memory of this node.
            return AFTER_FAILURE;
        }
        lanes.forEach(lane -> lane.addUnblocked(node.nanos()));
        followHint();
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

    // Claims of tests ---------------------------------------------------------------------------------------

    /** Claims the next job that can start; a handler that takes many gets those that are due. */
    List<UUID> claimNext() {
        UUID holder = prepareSingleClaim();
        search.runNow();
        wanted = null;
        while (lastTaken.isEmpty()) {
            Lane lane = lanes.stream()
                    .filter(candidate -> candidate.nextQueue(any -> true) != null)
                    .min(Comparator.comparing(ClaimingPass::urgency).thenComparing(ClaimingPass::oldest))
                    .orElse(null);
            if (lane == null) {
                break;
            }
            Queue queue = lane.nextQueue(any -> true);
            if (!claimOnce(lane, holder) || lastTaken.isEmpty()) {
                lane.skipped.add(Objects.requireNonNull(queue));
            }
        }
        return lastTaken;
    }

    /** Claims one job, if it can start now. */
    List<UUID> claim(DueJob due) {
        UUID holder = prepareSingleClaim();
        wanted = due.id();
        for (Lane lane : lanes) {
            lane.due.clear();
            if (lane.takes(due.queue())) {
                lane.due.put(due.queue(), due.mark());
                String group = due.group();
                if (group != null) {
                    lane.turns.continueWith(due.queue(), group);
                }
                claimOnce(lane, holder);
            }
        }
        return lastTaken;
    }

    private UUID prepareSingleClaim() {
        UUID holder = quiesced ? null : node.claimingNode();
        if (holder == null) {
            throw new IllegalStateException("This node claims no jobs: it drains or has left the cluster");
        }
        limited.refresh(holder);
        openAndClose();
        lanes.forEach(lane -> {
            lane.skipped.clear();
            lane.keepsSlots = false;
            lane.turns.forgetBlocked();
        });
        lastTaken = List.of();
        return holder;
    }

    private static int urgency(Lane lane) {
        Queue next = lane.nextQueue(any -> true);
        return next == null ? Integer.MAX_VALUE : -next.priority();
    }

    private static Mark oldest(Lane lane) {
        Queue next = lane.nextQueue(any -> true);
        return next == null ? Mark.UNMARKED : lane.due.getOrDefault(next, Mark.UNMARKED);
    }

    // A pass ------------------------------------------------------------------------------------------------

    /**
     * Adds a queue with new jobs to those that are due, if its lane is idle: a search would find the same, only later. A lane that has
     * more to do needs the search to decide what comes first.
     */
    private void followHint() {
        Queue queue = hint.getAndSet(null);
        if (queue == null) {
            return;
        }
        for (Lane lane : lanes) {
            Mark mark = lane.marks.get(queue);
            if (!lane.takes(queue) || lane.due.containsKey(queue)) {
                continue;
            }
            lane.turns.hasNewJobs(queue);
            if (lane.turns.isBlocked(queue, node.nanos())) {
                continue;
            }
            if (lane.hasRoom() && lane.due.isEmpty() && lane.executor.idle() > 1 && mark != null) {
                lane.due.put(queue, mark);
            } else {
                search.request();
            }
        }
    }

    /**
     * Claims for the lanes in turns, until no due job is left, the pass has lasted long enough, or a search is due. Returns whether
     * there may be more jobs.
     */
    private boolean claimInTurns(UUID holder) {
        long began = node.nanos();
        for (Lane lane : lanes) {
            lane.skipped.clear();
            lane.keepsSlots = false;
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
        Duration pause = pollInterval;
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
            int overdue = claims.withdraw(lane.executor.takeOverdue());
            if (overdue > 0) {
                log.debug("Returned {} claimed jobs that waited for a slot for too long", overdue);
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
            Queue queue = lane.keepsSlots ? nextAwaited(lane) : lane.nextQueue(any -> true);
            if (queue == null) {
                return false;
            }
            JobHandler handler = dependencies.handlers().named(queue.name());
            if (handler == null) {
                lane.due.remove(queue);
                continue;
            }
            Mark mark = lane.due.getOrDefault(queue, Mark.UNMARKED);
            // A row that cannot be marked as running later is claimed only if its handler starts immediately.
            boolean inTurns = queue.grouped() || limited.contains(handler.name());
            // One with a limit, too: while it waited here it would count.
            boolean immediately = inTurns || !claims.isolation().allowsChanges(handler);
            Integer cautiousLimit = queueFailures.cautiousLimit(queue);
            int idle = idleFor(lane, queue, handler);
            int limit = Math.min(
                    wanted == null ? Integer.MAX_VALUE : 1,
                    Math.min(
                            immediately || lane.keepsSlots || claims.bytes() > MOST_BYTES_AHEAD
                                    ? idle
                                    : lane.executor.roomFor(queue, handler),
                            cautiousLimit == null
                                    ? Math.max(LARGEST_CLAIM, JobExecutor.callSize(handler))
                                    : cautiousLimit));
            if (limit == 0) {
                // It waits for an idle slot. Until then only calls that are not full yet take jobs.
                lane.keepsSlots = true;
                continue;
            }
            var claiming = new Claiming(
                    holder,
                    limit,
                    Math.min(idle, limit),
                    handler.limits().maxAttempts(),
                    handler.isTransactional()
                            ? null
                            : dependencies.settings().leases().duration(),
                    cautiousLimit == null,
                    !inTurns && lane.beginQuickly(queue, mark, node.nanos()));
            lane.countClaim();
            claims.claimBegins();
            try {
                if (!quiesced) {
                    if (inTurns) {
                        claimInTurns(lane, queue, mark, claiming, handler);
                    } else {
                        claim(lane, queue, mark, claiming, handler);
                    }
                    queueFailures.succeeded(queue);
                }
            } catch (RuntimeException | Error e) {
                queueFailures.beCautious(queue);
                if (DatabaseFailure.kind(e).isOfServer()) {
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

    /** Returns how many jobs of a queue can start immediately. */
    private int idleFor(Lane lane, Queue queue, JobHandler handler) {
        if (lane.keepsSlots) {
            return lane.executor.missingFor(queue, handler);
        }
        // Calls for many jobs must not fill the memory, either.
        return claims.bytes() > MOST_BYTES_AHEAD ? lane.executor.idle() : lane.executor.idleFor(queue, handler);
    }

    /** Returns the next queue of a lane among those that a call waits for; null if there is none. */
    private @Nullable Queue nextAwaited(Lane lane) {
        return lane.executor.isWaitingForJobs()
                ? lane.nextQueue(queue -> {
                    JobHandler handler = dependencies.handlers().named(queue.name());
                    return handler != null && lane.executor.missingFor(queue, handler) > 0;
                })
                : null;
    }

    private void claimInTurns(Lane lane, Queue queue, Mark mark, Claiming claiming, JobHandler handler) {
        long sent = node.nanos();
        Turns turns =
                dependencies.stores().claims().claimInTurns(queue, mark, lane.turns.next(queue, handler), claiming);
        long received = node.nanos();
        dependencies.monitor().claimed(Duration.ofNanos(received - sent));
        queueFailures.relax(queue);
        if (!lane.turns.claimed(queue, handler, turns, claiming.limit(), sent, received)) {
            lane.due.remove(queue);
        }
        take(lane.executor, turns.jobs(), new Origin(claiming.node(), handler, sent));
    }

    private void claim(Lane lane, Queue queue, Mark mark, Claiming claiming, JobHandler handler) {
        long sent = node.nanos();
        List<Claimed> claimed = dependencies.stores().claims().claim(queue, mark, claiming);
        dependencies.monitor().claimed(Duration.ofNanos(node.nanos() - sent));
        queueFailures.relax(queue);
        if (JobClaimStore.isShort(claimed, claiming.limit())) {
            lane.claimedAll(queue);
            if (claiming.quick()) {
                // It may have left out jobs.
                search.request();
            }
        } else {
            lane.claimedPart(queue, claimed.get(claimed.size() - 1).mark());
        }
        take(lane.executor, claimed, new Origin(claiming.node(), handler, sent));
    }

    /** The node and the handler that jobs were claimed for, and when the claim was sent. */
    private record Origin(UUID holder, JobHandler handler, long sent) {}

    private void take(JobExecutor executor, List<Claimed> claimed, Origin origin) {
        var postponed = new ArrayList<Finish>();
        var taken = new ArrayList<Attempt>(claimed.size());
        var unread = new ArrayDeque<>(claimed);
        var ungrouped = new MissingGroups(dependencies, origin.holder, origin.handler, rows, node::ended);
        try {
            while (!unread.isEmpty()) {
                Claimed job = reader.read(unread.element(), origin.holder);
                unread.remove();
                if (job == null || ungrouped.add(job)) {
                    continue;
                }
                if (wanted != null && !wanted.equals(job.id())) {
                    // Another job of the group comes first.
                    postponed.add(Finish.unstarted(job.key(), Duration.ZERO));
                } else if (claims.isLastChance(job) && claims.hasLastChance()) {
                    postponed.add(Finish.unstarted(job.key(), LAST_CHANCES_APART));
                } else {
                    taken.add(claims.hold(job, origin.holder, origin.handler, origin.sent));
                }
            }
        } finally {
            // Even if another job of the claim could not be read: nobody else would run these.
            if (!quiesced) {
                // Otherwise they are returned before they start.
                if (node.isStepped()) {
                    // Never otherwise: an idle node would keep the payloads of its last claim in memory.
                    lastTaken = taken.stream().map(Attempt::id).toList();
                }
                executor.add(taken);
            }
            if (!unread.isEmpty()) {
                returnUnread(unread, origin);
            }
        }
        if (!postponed.isEmpty()) {
            dependencies.stores().finishes().finishUnlocked(origin.holder, postponed);
        }
        if (ungrouped.giveBack()) {
            search.request();
            node.jobReturned();
        }
    }

    /** Returns jobs that are claimed but were not read. If that fails, too, they are returned as claims that this node does not know. */
    private void returnUnread(Collection<Claimed> unread, Origin origin) {
        try {
            dependencies
                    .stores()
                    .finishes()
                    .finishUnlocked(
                            origin.holder,
                            unread.stream()
                                    .map(job -> Finish.unstarted(job.key(), Duration.ZERO))
                                    .toList());
            node.jobReturned();
        } catch (RuntimeException e) {
            log.debug("{} jobs could not be returned", unread.size(), e);
        }
    }
}

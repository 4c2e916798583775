// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.WorkerSettings.Leases;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** The claims of this node: which jobs it holds, whether it can still rely on them, and how they are returned or lost. */
public final class Claims {

    private static final Logger log = GuardedLogger.of(Claims.class);

    /** How many statements that return jobs may wait for a lock in vain. */
    private static final int MOST_WAITS = 4;

    /** The largest number of jobs lost together that are named in the log. */
    private static final int MOST_LOGGED = 10;

    private final WorkerNode node;
    private final JobStores stores;
    private final JobMonitor monitor;
    private final Leases leases;
    private final HandlerIsolation isolation = new HandlerIsolation();
    private final Map<ClaimKey, Attempt> held = new ConcurrentHashMap<>();
    private final AtomicLong bytes = new AtomicLong();

    private final AtomicInteger claimsInProgress = new AtomicInteger();

    private final Attempt.Persistence persistence;
    private volatile BiConsumer<String, @Nullable String> onEnd = (handler, group) -> {};

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition idle = lock.newCondition();

    Claims(WorkerParts parts, WorkerNode node, AttemptLogs logs) {
        this.node = node;
        this.stores = parts.stores();
        this.monitor = parts.monitor();
        this.leases = parts.settings().leases();
        this.persistence = new Attempt.Persistence(parts.json(), stores.held(), logs);
    }

    public HandlerIsolation isolation() {
        return isolation;
    }

    /** Sets what to call when a claim has ended and other nodes can know it, with the handler and the group of the job. */
    public void onEnd(BiConsumer<String, @Nullable String> listener) {
        onEnd = listener;
    }

    /**
     * Registers a claimed job.
     *
     * @param sentAt when the claim was sent
     */
    public Attempt hold(Claimed claimed, UUID holder, JobHandler handler, long sentAt) {
        var attempt =
                new Attempt(claimed, new ClaimedJob.Holder(holder, node.nodeName()), handler, sentAt, persistence);
        held.put(attempt.key(), attempt);
        bytes.addAndGet(claimed.bytes());
        return attempt;
    }

    /** Called before a claim is sent: until {@link #claimEnds()} this node may hold claims that are not known here. */
    public void claimBegins() {
        claimsInProgress.incrementAndGet();
    }

    public void claimEnds() {
        if (claimsInProgress.decrementAndGet() == 0) {
            signalIdle();
        }
    }

    /** Returns how many bytes of payloads, checkpoints and metadata the claimed jobs hold in memory. */
    public long bytes() {
        return bytes.get();
    }

    Collection<Attempt> all() {
        return held.values();
    }

    boolean has(Attempt attempt) {
        return held.get(attempt.key()) == attempt;
    }

    public int size() {
        return held.size();
    }

    /**
     * Returns whether no other node can hold the job yet. A transactional job is held as long as its node lives, any other until
     * its lease expires. The lease of a node that a test steps does not expire by itself: the time of its database stands still.
     */
    boolean isHeld(Attempt attempt) {
        return attempt.handler().isTransactional()
                || node.isStepped()
                || node.nanos() - attempt.confirmedAt() < leases.duration().toNanos() * 4 / 5;
    }

    /**
     * Returns whether the job is abandoned if its node crashes once more. A node runs one such job at a time: if it makes the node
     * crash, the others must not be abandoned with it.
     */
    public boolean isLastChance(Claimed job) {
        CrashRule crash = leases.crash();
        return !crash.spendsAttempt() && job.recoveries() > 0 && job.recoveries() >= crash.maxRecoveries();
    }

    public boolean hasLastChance() {
        return held.values().stream().anyMatch(attempt -> isLastChance(attempt.claimed()));
    }

    /** Removes a claim that has ended; false if it was removed before. */
    boolean forget(Attempt attempt) {
        boolean known = held.remove(attempt.key(), attempt);
        if (known) {
            bytes.addAndGet(-attempt.claimed().bytes());
            onEnd.accept(attempt.handler().name(), attempt.claimed().group());
        }
        if (known && held.isEmpty()) {
            signalIdle();
        }
        return known;
    }

    private void signalIdle() {
        lock.lock();
        try {
            idle.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Stops the handler of a job that this node no longer holds, and discards its result. */
    void lose(Attempt attempt, String reason) {
        lose(attempt, reason, Level.WARN);
    }

    /** Returns false if the claim was removed before. */
    private boolean lose(Attempt attempt, String reason, Level level) {
        boolean isFirst = end(attempt);
        if (isFirst) {
            log.atLevel(level)
                    .log(
                            "Job {} ({}): claim lost, {}; result discarded (epoch {})",
                            attempt.name(),
                            attempt.id(),
                            reason,
                            attempt.epoch());
            monitor.claimLost(attempt.name());
        }
        return isFirst;
    }

    /** Stops the handler of a job that this node no longer holds according to the table: it was cancelled, or the claim is lost. */
    void cancelOrLose(Attempt attempt, String reason) {
        if (has(attempt) && isCancelled(attempt)) {
            if (end(attempt)) {
                log.info("Job {} ({}): cancelled; result discarded", attempt.name(), attempt.id());
            }
        } else {
            lose(attempt, reason);
        }
    }

    private boolean isCancelled(Attempt attempt) {
        try {
            return stores.held().isCancelled(attempt.key());
        } catch (DataAccessException e) {
            log.debug("Job {} ({}): could not check whether it was cancelled", attempt.name(), attempt.id(), e);
            return false;
        }
    }

    /** Stops the handler; false if the claim was removed before. */
    private boolean end(Attempt attempt) {
        attempt.lose();
        return forget(attempt);
    }

    /** Interrupts the handler because its timeout has passed, if that attempt still runs. */
    void expire(Attempt attempt, long startedAt) {
        if (attempt.expire(startedAt)) {
            monitor.timedOut(attempt.name());
        }
    }

    public void loseAll(String reason) {
        int lost = 0;
        for (Attempt attempt : held.values()) {
            lost += lose(attempt, reason, lost < MOST_LOGGED ? Level.WARN : Level.DEBUG) ? 1 : 0;
        }
        if (lost > MOST_LOGGED) {
            log.warn("{} more claims lost, {}; the level DEBUG names their jobs", lost - MOST_LOGGED, reason);
        }
    }

    /** Returns jobs that have not started. */
    public void withdraw() {
        withdraw(held.values());
    }

    /** Returns those of these jobs that have not started; returns how many. */
    public int withdraw(Collection<Attempt> attempts) {
        List<Attempt> withdrawn = attempts.stream().filter(Attempt::withdraw).toList();
        returnToQueue(withdrawn);
        return withdrawn.size();
    }

    /** Returns jobs to the queue. Their attempts do not count. */
    void returnToQueue(Collection<Attempt> attempts) {
        giveUp(attempts, attempt -> Ending.returned(attempt.returned(Duration.ZERO, null), null));
    }

    /** Ends claims whose handlers may still run, each as {@code end} decides. */
    public void giveUp(Collection<Attempt> attempts, Function<Attempt, Ending> end) {
        if (attempts.isEmpty()) {
            return;
        }
        Map<UUID, List<Finish>> byNode = new LinkedHashMap<>();
        for (Attempt attempt : attempts) {
            Ending ending = end.apply(attempt);
            attempt.ended(ending);
            if (ending.finish() != null) {
                byNode.computeIfAbsent(attempt.node(), n -> new ArrayList<>()).add(ending.finish());
            }
        }
        int ended = 0;
        for (Map.Entry<UUID, List<Finish>> group : byNode.entrySet()) {
            ended += giveUp(group.getKey(), group.getValue());
        }
        if (ended > 0) {
            node.jobReturned();
        }
        if (ended < attempts.size()) {
            log.info(
                    "{} of {} jobs could not be returned: another transaction has locked them, or this node no longer holds them."
                            + " Other nodes recover them when their leases expire.",
                    attempts.size() - ended,
                    attempts.size());
        }
        attempts.forEach(this::forget);
    }

    /** Ends as many claims as possible without waiting for locks; returns how many. */
    private int giveUp(UUID node, List<Finish> finishes) {
        return giveUp(node, finishes, new int[] {0});
    }

    private int giveUp(UUID node, List<Finish> finishes, int[] waits) {
        try {
            Set<ClaimKey> ended = stores.finishes().finishUnlocked(node, finishes);
            finishes.stream().filter(finish -> ended.contains(finish.key())).forEach(this::reportEnd);
            return ended.size();
        } catch (DataAccessException | TransactionException e) {
            boolean waited = DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT && ++waits[0] <= MOST_WAITS;
            if (finishes.size() > 1 && (waited || DatabaseFailure.kind(e).isOfRow())) {
                // A row that cannot be written, or whose successor is locked, must not block the others.
                int half = finishes.size() / 2;
                return giveUp(node, finishes.subList(0, half), waits)
                        + giveUp(node, finishes.subList(half, finishes.size()), waits);
            }
            log.debug("{} jobs could not be returned", finishes.size(), e);
            return 0;
        }
    }

    private void reportEnd(Finish finish) {
        Attempt attempt = held.get(finish.key());
        Ending ending = attempt == null ? null : attempt.end();
        if (attempt == null || ending == null) {
            return;
        }
        if (ending.kind() == Kind.FAILED) {
            monitor.failed(attempt.id(), attempt.name(), finish.status(), String.valueOf(finish.error()));
        }
        // Other jobs are only returned: their attempts do not count.
        if (finish.ranMillis() != null) {
            monitor.ended(attempt.name(), ending.kind(), ending.ranNanos());
        }
    }

    /** Waits until there are no claims and none is in progress; false if that time has passed. */
    public boolean awaitNone(Duration patience) throws InterruptedException {
        long deadline = node.nanos() + patience.toNanos();
        lock.lock();
        try {
            // In this order: a claim that is no longer in progress has added its jobs.
            while (claimsInProgress.get() > 0 || !held.isEmpty()) {
                long left = deadline - node.nanos();
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
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.database.StatementFailure;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.store.ClaimKey;
import dev.forge.cluster.internal.job.store.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.store.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.job.worker.RunningJob.Stop;
import dev.forge.cluster.internal.job.worker.WorkerSettings.Leases;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.job.JobStatus;
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
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** The claims of this node: which jobs it holds, whether it can still rely on them, and how they are returned or lost. */
final class Claims {

    private static final Logger log = GuardedLogger.of(Claims.class);

    /** How many statements that return jobs may wait for a lock in vain. */
    private static final int MOST_WAITS = 4;

    /** The largest number of jobs lost together that are named in the log. */
    private static final int MOST_LOGGED = 10;

    private final Worker.NodeView node;
    private final Worker.Stores stores;
    private final JobMonitor monitor;
    private final Leases leases;
    private final HandlerIsolation isolation = new HandlerIsolation();
    private final Map<ClaimKey, RunningJob> held = new ConcurrentHashMap<>();
    private final AtomicLong bytes = new AtomicLong();

    private final AtomicInteger claimsInProgress = new AtomicInteger();

    private volatile Consumer<RunningJob> onEnd = running -> {};

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition idle = lock.newCondition();

    Claims(Worker.NodeView node, Worker.Stores stores, JobMonitor monitor, Leases leases) {
        this.node = node;
        this.stores = stores;
        this.monitor = monitor;
        this.leases = leases;
    }

    HandlerIsolation isolation() {
        return isolation;
    }

    /** Sets what to call when a claim has ended and other nodes can know it. */
    void onEnd(Consumer<RunningJob> listener) {
        onEnd = listener;
    }

    void add(RunningJob running) {
        held.put(running.key(), running);
        bytes.addAndGet(running.claimed().bytes());
    }

    /** Called before a claim is sent: until {@link #claimEnds()} this node may hold claims that are not known here. */
    void claimBegins() {
        claimsInProgress.incrementAndGet();
    }

    void claimEnds() {
        if (claimsInProgress.decrementAndGet() == 0) {
            signalIdle();
        }
    }

    /** Returns how many bytes of payloads, checkpoints and metadata the claimed jobs hold in memory. */
    long bytes() {
        return bytes.get();
    }

    Collection<RunningJob> all() {
        return held.values();
    }

    boolean has(RunningJob running) {
        return held.get(running.key()) == running;
    }

    int size() {
        return held.size();
    }

    /**
     * Returns whether no other node can hold the job yet. A transactional job is held as long as its node lives, any other until
     * its lease expires. The lease of a node that a test steps does not expire by itself: the time of its database stands still.
     */
    boolean isHeld(RunningJob running) {
        return running.handler().isTransactional()
                || node.isStepped()
                || node.nanos() - running.confirmedAt() < leases.duration().toNanos() * 4 / 5;
    }

    /**
     * Returns whether the job is abandoned if its node crashes once more. A node runs one such job at a time: if it makes the node
     * crash, the others must not be abandoned with it.
     */
    boolean isLastChance(Claimed job) {
        CrashRule crash = leases.crash();
        return !crash.spendsAttempt() && job.recoveries() > 0 && job.recoveries() >= crash.maxRecoveries();
    }

    boolean hasLastChance() {
        return held.values().stream().anyMatch(running -> isLastChance(running.claimed()));
    }

    /** Removes a claim that has ended; false if it was removed before. */
    boolean forget(RunningJob running) {
        boolean known = held.remove(running.key(), running);
        if (known) {
            bytes.addAndGet(-running.claimed().bytes());
            onEnd.accept(running);
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
    void lose(RunningJob running, String reason) {
        lose(running, reason, Level.WARN);
    }

    /** Returns false if the claim was removed before. */
    private boolean lose(RunningJob running, String reason, Level level) {
        boolean isFirst = end(running);
        if (isFirst) {
            log.atLevel(level)
                    .log(
                            "Job {} ({}): claim lost, {}; result discarded (epoch {})",
                            running.name(),
                            running.id(),
                            reason,
                            running.epoch());
            monitor.claimLost(running.name());
        }
        return isFirst;
    }

    /** Stops the handler of a job that this node no longer holds according to the table: it was cancelled, or the claim is lost. */
    void cancelOrLose(RunningJob running, String reason) {
        if (has(running) && isCancelled(running)) {
            if (end(running)) {
                log.info("Job {} ({}): cancelled; result discarded", running.name(), running.id());
            }
        } else {
            lose(running, reason);
        }
    }

    private boolean isCancelled(RunningJob running) {
        try {
            return stores.held().isCancelled(running.key());
        } catch (DataAccessException e) {
            log.debug("Job {} ({}): could not check whether it was cancelled", running.name(), running.id(), e);
            return false;
        }
    }

    /** Stops the handler; false if the claim was removed before. */
    private boolean end(RunningJob running) {
        running.stop(Stop.LOST);
        running.withdraw();
        return forget(running);
    }

    /** Interrupts the handler because its timeout has passed, if that attempt still runs. */
    void expire(RunningJob running, long startedAt) {
        if (running.expire(startedAt)) {
            monitor.timedOut(running.name());
        }
    }

    void loseAll(String reason) {
        int lost = 0;
        for (RunningJob running : held.values()) {
            lost += lose(running, reason, lost < MOST_LOGGED ? Level.WARN : Level.DEBUG) ? 1 : 0;
        }
        if (lost > MOST_LOGGED) {
            log.warn("{} more claims lost, {}; the level DEBUG names their jobs", lost - MOST_LOGGED, reason);
        }
    }

    /** Returns jobs that have not started. */
    void withdraw() {
        List<RunningJob> withdrawn =
                held.values().stream().filter(RunningJob::withdraw).toList();
        if (!withdrawn.isEmpty()) {
            giveBack(withdrawn);
        }
    }

    /** Returns jobs to the queue. Their attempts do not count. */
    void giveBack(Collection<RunningJob> runnings) {
        giveUp(runnings, running -> running.givenBack(Duration.ZERO));
    }

    /** Ends claims whose handlers may still run, each as {@code end} decides. */
    void giveUp(Collection<RunningJob> runnings, Function<RunningJob, Finish> end) {
        if (runnings.isEmpty()) {
            return;
        }
        Map<UUID, List<Finish>> byNode = new LinkedHashMap<>();
        runnings.forEach(running ->
                byNode.computeIfAbsent(running.node(), n -> new ArrayList<>()).add(end.apply(running)));
        int ended = 0;
        for (Map.Entry<UUID, List<Finish>> group : byNode.entrySet()) {
            ended += giveUp(group.getKey(), group.getValue());
        }
        if (ended > 0) {
            node.jobReturned();
        }
        if (ended < runnings.size()) {
            log.info(
                    "{} of {} jobs could not be returned: another transaction has locked them, or this node no longer holds them."
                            + " Other nodes recover them when their leases expire.",
                    runnings.size() - ended,
                    runnings.size());
        }
        runnings.forEach(this::forget);
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
            boolean waited = StatementFailure.isLocked(e) && ++waits[0] <= MOST_WAITS;
            if (finishes.size() > 1 && (waited || StatementFailure.isOfRow(e))) {
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
        RunningJob running = held.get(finish.key());
        if (running != null && finish.status() == JobStatus.FAILED) {
            monitor.failed(running.id(), running.name(), finish.status(), String.valueOf(finish.error()));
        }
        // Other jobs are only returned: their attempts do not count.
        if (running != null && finish.ranMillis() != null) {
            monitor.ended(running.name(), running.outcome(), running.ranNanos());
        }
    }

    /** Waits until there are no claims and none is in progress; false if that time has passed. */
    boolean awaitNone(Duration patience) throws InterruptedException {
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

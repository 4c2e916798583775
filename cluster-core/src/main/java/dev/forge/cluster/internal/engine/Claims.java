package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.engine.Running.Stop;
import dev.forge.cluster.internal.engine.WorkSettings.Leases;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import dev.forge.cluster.internal.store.JobStore.Finish;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** The claims this node has: which they are, whether it can still rely on them, and how they are given back or lost. */
final class Claims {

    private static final Logger log = GuardedLogger.of(Claims.class);

    private final Worker.Host host;
    private final JobStore jobs;
    private final JobMonitor monitor;
    private final Leases leases;
    private final Map<ClaimKey, Running> held = new ConcurrentHashMap<>();
    private final AtomicLong bytes = new AtomicLong();

    private final AtomicInteger claimsUnderWay = new AtomicInteger();

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition idle = lock.newCondition();

    Claims(Worker.Host host, JobStore jobs, JobMonitor monitor, Leases leases) {
        this.host = host;
        this.jobs = jobs;
        this.monitor = monitor;
        this.leases = leases;
    }

    void add(Running running) {
        held.put(running.key(), running);
        bytes.addAndGet(running.claimed().bytes());
    }

    /** A statement that claims is about to be sent: until {@link #claimEnds()} there may be claims that are not known here. */
    void claimBegins() {
        claimsUnderWay.incrementAndGet();
    }

    void claimEnds() {
        if (claimsUnderWay.decrementAndGet() == 0) {
            signalIdle();
        }
    }

    /** How many bytes of payloads, checkpoints and metadata they hold in memory. */
    long bytes() {
        return bytes.get();
    }

    Collection<Running> all() {
        return held.values();
    }

    boolean has(Running running) {
        return held.get(running.key()) == running;
    }

    int size() {
        return held.size();
    }

    /**
     * Whether nobody else can have the job yet. A transactional one is held as long as its node lives, any other until its
     * lease ends.
     */
    boolean isHeld(Running running) {
        return running.handler().isTransactional()
                || host.nanos() - running.confirmedAt() < leases.duration().toNanos() * 4 / 5;
    }

    /**
     * Whether it is abandoned if its node dies once more. Of such jobs a node runs one at a time: if the node dies of one,
     * the others must not go with it.
     */
    boolean isLastChance(Claimed job) {
        CrashRule crash = leases.crash();
        return !crash.spendsAttempt() && job.recoveries() > 0 && job.recoveries() >= crash.maxRecoveries();
    }

    boolean hasLastChance() {
        return held.values().stream().anyMatch(running -> isLastChance(running.claimed()));
    }

    /** It has ended here; false if it had before. */
    boolean forget(Running running) {
        boolean known = held.remove(running.key(), running);
        if (known) {
            bytes.addAndGet(-running.claimed().bytes());
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

    /** It is another's, or nobody's: its handler ends, and whatever it does is dropped. */
    void lose(Running running, String why) {
        if (end(running)) {
            log.warn(
                    "job {} {} epoch {}: claim lost, {}; result dropped",
                    running.name(),
                    running.id(),
                    running.epoch(),
                    why);
            monitor.claimLost(running.name());
        }
    }

    /** The table says that this node has not got it: somebody has cancelled it, which is no trouble, or it is lost. */
    void cancelOrLose(Running running, String why) {
        if (has(running) && isCancelled(running)) {
            if (end(running)) {
                log.info(
                        "job {} {}: cancelled; its handler is interrupted, its result dropped",
                        running.name(),
                        running.id());
            }
        } else {
            lose(running, why);
        }
    }

    private boolean isCancelled(Running running) {
        try {
            return jobs.isCancelled(running.key());
        } catch (DataAccessException e) {
            log.debug("job {} {}: the reason for its end is unknown", running.name(), running.id(), e);
            return false;
        }
    }

    /** Stops its handler; false if it had ended here before. */
    private boolean end(Running running) {
        running.stop(Stop.LOST);
        running.withdraw();
        return forget(running);
    }

    /** Its timeout has passed: its handler is interrupted, and the attempt has failed. */
    void expire(Running running) {
        if (running.stop(Stop.TIMEOUT)) {
            monitor.timedOut(running.name());
        }
    }

    void loseAll(String why) {
        held.values().forEach(running -> lose(running, why));
    }

    /** Gives back what has not started. */
    void withdraw() {
        List<Running> withdrawn =
                held.values().stream().filter(Running::withdraw).toList();
        if (!withdrawn.isEmpty()) {
            giveBack(withdrawn);
        }
    }

    /** Their attempts do not count: others begin where these have not. */
    void giveBack(Collection<Running> runnings) {
        giveUp(runnings, running -> running.givenBack(Duration.ZERO));
    }

    /** Ends claims whose handlers may still run, as {@code end} says. */
    void giveUp(Collection<Running> runnings, Function<Running, Finish> end) {
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
            host.cameBack();
        }
        if (ended < runnings.size()) {
            log.info(
                    "{} of {} jobs could not be given back: another transaction has locked them, or they are not this node's"
                            + " any more. They are recovered when their leases end.",
                    runnings.size() - ended,
                    runnings.size());
        }
        runnings.forEach(this::forget);
    }

    /** Gives up as many as possible, and waits for nobody; answers how many. */
    private int giveUp(UUID node, List<Finish> finishes) {
        try {
            return jobs.finishUnlocked(node, finishes).size();
        } catch (DataAccessException | TransactionException e) {
            if (finishes.size() > 1 && JobStore.isRefusal(e)) {
                // One that cannot be stored must not keep its neighbours.
                int half = finishes.size() / 2;
                return giveUp(node, finishes.subList(0, half)) + giveUp(node, finishes.subList(half, finishes.size()));
            }
            log.debug("{} jobs could not be given back", finishes.size(), e);
            return 0;
        }
    }

    /** Waits until there are none, and none under way; false if there still are after that time. */
    boolean awaitNone(Duration patience) throws InterruptedException {
        long deadline = host.nanos() + patience.toNanos();
        lock.lock();
        try {
            // In this order: a claim that has ended by now has added what it got.
            while (claimsUnderWay.get() > 0 || !held.isEmpty()) {
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
}

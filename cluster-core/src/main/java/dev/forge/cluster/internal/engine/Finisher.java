package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.internal.store.ConnectionLoss;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import dev.forge.cluster.internal.store.JobStore.Finish;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;

/**
 * The thread that writes how jobs ended. It takes whatever has gathered while its last statement was under way: one job
 * at a time when there is little to do, hundreds when there is much, and never a pause for the sake of a larger batch.
 */
final class Finisher {

    private static final Logger log = LoggerFactory.getLogger(Finisher.class);
    private static final int BATCH = 500;
    /** Characters in one statement, more or less. */
    private static final long LARGEST = 8_000_000;

    private static final Duration FIRST_RETRY = Duration.ofMillis(50);
    private static final Duration LAST_RETRY = Duration.ofSeconds(1);
    private static final Duration POLL = Duration.ofMillis(500);

    private final JobStore jobs;
    private final Runnable introduce;
    private final BiConsumer<Running, Boolean> settled;
    private final LinkedBlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
    /** Something has ended, or this is to stop. */
    private final Semaphore news = new Semaphore(0);

    private final CountDownLatch stopped = new CountDownLatch(1);
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;

    private record Ended(Running running, Finish finish) {}

    /**
     * @param introduce says in the log of this thread who we are
     * @param settled hears of each: true if it was written, false if the claim was lost
     */
    Finisher(JobStore jobs, Runnable introduce, BiConsumer<Running, Boolean> settled) {
        this.jobs = jobs;
        this.introduce = introduce;
        this.settled = settled;
    }

    /** Once. */
    void start() {
        Thread starting = new Thread(this::run, "forge-cluster-finish");
        starting.setDaemon(true);
        thread = starting;
        starting.start();
    }

    /** Ends the thread; what it could not write within that time is left to the guards in the database. */
    void stop(Duration patience) throws InterruptedException {
        stopping = true;
        news.release();
        Thread ending = thread;
        thread = null;
        if (ending != null) {
            ending.join(patience.toMillis());
            stopped.countDown();
        }
    }

    void add(Running running, Finish finish) {
        ended.add(new Ended(running, finish));
        news.release();
    }

    /** Whether its thread lives, where it should. */
    boolean isAlive() {
        Thread writing = thread;
        return writing == null || writing.isAlive();
    }

    /** How many jobs have ended whose end is not written. */
    int backlog() {
        return ended.size();
    }

    private static void report(int jobs, Throwable failure) {
        if (ConnectionLoss.caused(failure)) {
            log.warn(
                    "finisher: could not write how {} jobs ended; trying again: {}",
                    jobs,
                    ConnectionLoss.brief(failure));
        } else {
            log.warn("finisher: could not write how {} jobs ended; trying again", jobs, failure);
        }
    }

    private void run() {
        var batch = new ArrayList<Ended>(BATCH);
        Duration retry = FIRST_RETRY;
        int failures = 0;
        try {
            while (!(stopping && ended.isEmpty() && batch.isEmpty())) {
                if (!gather(batch)) {
                    continue;
                }
                introduce.run();
                Throwable failure = write(batch);
                batch.removeIf(one -> one.running.stage() == Running.Stage.ENDED);
                if (failure == null) {
                    if (failures > 0) {
                        log.info("finisher: writes again after {} failures", failures);
                    }
                    failures = 0;
                    retry = FIRST_RETRY;
                } else {
                    if (failures++ == 0) {
                        report(batch.size(), failure);
                    }
                    if (stopped.await(retry.toMillis(), TimeUnit.MILLISECONDS)) {
                        return;
                    }
                    retry = retry.multipliedBy(2).compareTo(LAST_RETRY) < 0 ? retry.multipliedBy(2) : LAST_RETRY;
                }
            }
        } catch (InterruptedException e) {
            log.debug("finisher: interrupted with {} jobs unwritten", ended.size() + batch.size());
        }
    }

    /** Takes what there is, up to a batch; false if there is nothing. */
    private boolean gather(List<Ended> batch) throws InterruptedException {
        // Before the look: what comes after it is news again.
        news.drainPermits();
        Ended next = ended.poll();
        if (next == null && batch.isEmpty() && !stopping && news.tryAcquire(POLL.toMillis(), TimeUnit.MILLISECONDS)) {
            next = ended.poll();
        }
        long size = 0;
        while (next != null) {
            batch.add(next);
            size += next.finish.length();
            next = batch.size() < BATCH && size < LARGEST ? ended.poll() : null;
        }
        return !batch.isEmpty();
    }

    /** Writes what can be written; answers what kept the rest from it. */
    private @Nullable Throwable write(List<Ended> batch) {
        // Claims of a former membership are lost; the guards say so.
        Map<UUID, List<Ended>> byNode = new LinkedHashMap<>();
        batch.forEach(one -> byNode.computeIfAbsent(one.running.node(), n -> new ArrayList<>())
                .add(one));
        Throwable failure = null;
        for (Map.Entry<UUID, List<Ended>> group : byNode.entrySet()) {
            Throwable own = write(group.getKey(), group.getValue());
            failure = own == null ? failure : own;
        }
        return failure;
    }

    /**
     * Each statement by itself: if one fails, what another has written must not be written again. A job that was deleted, or
     * given back, by the first would look like a lost claim.
     */
    private @Nullable Throwable write(UUID node, List<Ended> batch) {
        var byKey = new HashMap<ClaimKey, Ended>();
        batch.forEach(one -> byKey.put(one.finish.key(), one));
        Throwable failure = null;
        for (List<Finish> part :
                JobStore.statements(batch.stream().map(Ended::finish).toList())) {
            Throwable own = writeTogether(
                    node,
                    part.stream()
                            .map(finish -> Objects.requireNonNull(byKey.get(finish.key())))
                            .toList());
            failure = failure == null ? own : failure;
        }
        return failure;
    }

    private @Nullable Throwable writeTogether(UUID node, List<Ended> batch) {
        try {
            Set<ClaimKey> lost =
                    jobs.finish(node, batch.stream().map(Ended::finish).toList());
            batch.forEach(one -> settle(one.running, !lost.contains(one.finish.key())));
            return null;
        } catch (DataAccessException e) {
            // One row that cannot be stored, or that somebody has locked, must not keep its neighbours from it.
            boolean refused = JobStore.isRefusal(e);
            if (!refused && !JobStore.isLocked(e)) {
                return e;
            }
            return batch.size() > 1 ? halves(node, batch) : refused ? refused(node, batch.get(0), e) : e;
        } catch (RuntimeException | Error e) {
            // Whatever it is: without this thread no job would ever end.
            return batch.size() > 1 ? halves(node, batch) : e;
        }
    }

    private @Nullable Throwable halves(UUID node, List<Ended> batch) {
        Throwable first = writeTogether(node, List.copyOf(batch.subList(0, batch.size() / 2)));
        Throwable second = writeTogether(node, List.copyOf(batch.subList(batch.size() / 2, batch.size())));
        return first != null ? first : second;
    }

    private @Nullable Throwable refused(UUID node, Ended culprit, DataAccessException refusal) {
        Finish finish = culprit.finish;
        log.warn(
                "job {}: how it ended cannot be stored; it has failed",
                finish.key().id(),
                ErrorText.loggable(refusal));
        var failed = new Finish(
                finish.key(),
                JobStatus.FAILED,
                null,
                ErrorText.storable("the database refused to store how it ended: "
                        + refusal.getMostSpecificCause().getMessage()),
                0,
                0,
                null,
                null,
                finish.retention(),
                finish.ranMillis(),
                false);
        try {
            settle(culprit.running, jobs.finish(node, List.of(failed)).isEmpty());
            return null;
        } catch (DataAccessException e) {
            return e;
        }
    }

    /** What happened to it, once: whether its end is written, or its claim was lost. */
    void settle(Running running, boolean written) {
        if (running.stage() != Running.Stage.ENDED) {
            running.end();
            settled.accept(running, written);
        }
    }
}

package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.ConnectionLoss;
import dev.forge.cluster.internal.store.DatabaseFault;
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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * The thread that writes how jobs ended. It takes whatever has gathered while its last statement was under way: one job
 * at a time when there is little to do, hundreds when there is much, and never a pause for the sake of a larger batch.
 */
final class Finisher {

    private static final Logger log = GuardedLogger.of(Finisher.class);
    private static final int BATCH = 500;
    /** Characters in one statement, more or less. */
    private static final long LARGEST = 8_000_000;

    private static final Duration FIRST_RETRY = Duration.ofMillis(50);
    private static final Duration LAST_RETRY = Duration.ofSeconds(1);
    private static final Duration POLL = Duration.ofMillis(500);
    /** For so long after a statement met a locked row, statements skip locked rows from the start. */
    private static final Duration SKIPPING = Duration.ofSeconds(1);
    /** How many retries of locked rows may wait for a lock at a time. */
    private static final int MOST_WAITS = 4;

    private final JobStore jobs;
    private final LongSupplier nanos;
    private final Runnable introduce;
    private final BiConsumer<Running, Boolean> settled;
    private final LinkedBlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
    /** Ends whose rows another transaction has locked. Written by the finishing thread alone. */
    private final Map<Ended, Retry> locked = new ConcurrentHashMap<>();

    private long skippingUntil;
    private boolean skipping;
    private boolean lockReported;
    /** How many times in a row not all could be written. */
    private int failures;

    /** Something has ended, or this is to stop. */
    private final Semaphore news = new Semaphore(0);

    private final CountDownLatch stopped = new CountDownLatch(1);
    private volatile boolean stopping;
    private volatile @Nullable Thread thread;

    private record Ended(Running running, Finish finish) {}

    /**
     * When a locked row is tried again.
     *
     * @param delay before that, doubled each time
     * @param at by the clock of this JVM
     */
    private record Retry(Duration delay, long at) {

        static Retry after(Duration delay, long now) {
            return new Retry(delay, now + delay.toNanos());
        }

        Retry next(long now) {
            return after(doubled(delay), now);
        }
    }

    private static Duration doubled(Duration delay) {
        Duration twice = delay.multipliedBy(2);
        return twice.compareTo(LAST_RETRY) < 0 ? twice : LAST_RETRY;
    }

    /**
     * @param introduce says in the log of this thread who we are
     * @param settled hears of each: true if it was written, false if the claim was lost
     */
    Finisher(JobStore jobs, LongSupplier nanos, Runnable introduce, BiConsumer<Running, Boolean> settled) {
        this.jobs = jobs;
        this.nanos = nanos;
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
            try {
                ending.join(patience.toMillis());
            } finally {
                stopped.countDown();
            }
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
        return ended.size() + locked.size();
    }

    /** Logs that once, until something is written again. */
    private void report(int jobs, Throwable failure) {
        if (failures++ > 0) {
            return;
        }
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
        try {
            while (!(stopping && ended.isEmpty() && batch.isEmpty() && locked.isEmpty())) {
                boolean gathered = gather(batch);
                if (stopping && !gathered && stopped.await(untilLockedRetry().toMillis(), TimeUnit.MILLISECONDS)) {
                    return;
                }
                List<Ended> again = dueAgain();
                if (!gathered && again.isEmpty()) {
                    continue;
                }
                if (writes(batch, again)) {
                    retry = FIRST_RETRY;
                } else if (stopped.await(retry.toMillis(), TimeUnit.MILLISECONDS)) {
                    return;
                } else {
                    retry = doubled(retry);
                }
            }
        } catch (InterruptedException e) {
            log.debug("finisher: interrupted with {} jobs unwritten", ended.size() + batch.size() + locked.size());
        }
    }

    /** Writes what it can; whatever goes wrong, this thread goes on: without it no job would ever end. */
    private boolean writes(List<Ended> batch, List<Ended> again) {
        Throwable failure;
        try {
            introduce.run();
            failure = write(batch, this::writeTogether);
            if (failure == null && !again.isEmpty()) {
                failure = writeAgain(again);
            }
        } catch (RuntimeException | Error e) {
            failure = e;
        }
        batch.removeIf(one -> one.running.stage() == Running.Stage.ENDED || locked.containsKey(one));
        if (failure != null) {
            report(batch.size(), failure);
            return false;
        }
        if (failures > 0) {
            log.info("finisher: writes again after {} failures", failures);
            failures = 0;
        }
        return true;
    }

    /** Takes what there is, up to a batch; false if there is nothing. */
    private boolean gather(List<Ended> batch) throws InterruptedException {
        // Before the look: what comes after it is news again.
        news.drainPermits();
        Ended next = ended.poll();
        if (next == null
                && batch.isEmpty()
                && !stopping
                && news.tryAcquire(untilLockedRetry().toNanos(), TimeUnit.NANOSECONDS)) {
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

    // Locked rows ---------------------------------------------------------------------------------------------

    private Duration untilLockedRetry() {
        long now = nanos.getAsLong();
        long first = locked.values().stream()
                .mapToLong(retry -> Math.max(0, retry.at - now))
                .min()
                .orElse(POLL.toNanos());
        return Duration.ofNanos(Math.min(first, POLL.toNanos()));
    }

    private List<Ended> dueAgain() {
        if (locked.isEmpty()) {
            return List.of();
        }
        long now = nanos.getAsLong();
        var due = new ArrayList<Ended>();
        long size = 0;
        for (Map.Entry<Ended, Retry> entry : locked.entrySet()) {
            if (entry.getValue().at - now <= 0 && due.size() < BATCH && size < LARGEST) {
                due.add(entry.getKey());
                size += entry.getKey().finish.length();
            }
        }
        return due;
    }

    /** Tries locked rows again, apart from all others. */
    private @Nullable Throwable writeAgain(List<Ended> again) {
        int[] waits = {0};
        Throwable failure = write(again, (node, part) -> skippingLocked(node, part, waits));
        for (Ended one : again) {
            if (one.running.stage() == Running.Stage.ENDED) {
                locked.remove(one);
            } else {
                Retry next = locked.computeIfPresent(one, (key, retry) -> retry.next(nanos.getAsLong()));
                if (next != null && next.delay.equals(LAST_RETRY) && !lockReported) {
                    lockReported = true;
                    log.warn(
                            "Job {} ({}): another transaction has locked its row, its result is written when that ends."
                                    + " Other jobs are not affected. The view pg_locks shows who holds the lock.",
                            one.running.name(),
                            one.running.id());
                }
            }
        }
        lockReported &= !locked.isEmpty();
        return failure;
    }

    private void setAside(Ended one) {
        locked.putIfAbsent(one, Retry.after(FIRST_RETRY, nanos.getAsLong()));
    }

    private boolean isSkipping() {
        skipping &= nanos.getAsLong() - skippingUntil < 0;
        return skipping;
    }

    private void startSkipping() {
        skipping = true;
        skippingUntil = nanos.getAsLong() + SKIPPING.toNanos();
    }

    /**
     * Writes the ends whose rows nobody has locked and sets the others aside; a second look tells locked rows from lost claims.
     * A row that no transaction has locked may still have to wait, for one that a trigger writes: such a job is looked for and
     * set aside as well.
     *
     * @param waits how many statements have waited in vain so far
     */
    private @Nullable Throwable skippingLocked(UUID node, List<Ended> batch, int[] waits) {
        try {
            Set<ClaimKey> written =
                    jobs.finishUnlocked(node, batch.stream().map(Ended::finish).toList());
            List<Ended> rest = batch.stream()
                    .filter(one -> !written.contains(one.finish.key()))
                    .toList();
            batch.stream().filter(one -> written.contains(one.finish.key())).forEach(one -> settle(one.running, true));
            if (!rest.isEmpty()) {
                startSkipping();
                tellLockedFromLost(node, rest);
            }
            return null;
        } catch (DataAccessException | TransactionException e) {
            boolean refused = JobStore.isRefusal(e);
            boolean waited = JobStore.isLocked(e);
            if (!refused && !waited) {
                unanswered(batch, e);
                return e;
            }
            if (waited && (batch.size() == 1 || ++waits[0] > MOST_WAITS)) {
                batch.forEach(this::setAside);
                return null;
            }
            return batch.size() > 1
                    ? halves(node, batch, (n, half) -> skippingLocked(n, half, waits))
                    : refused(node, batch.get(0), e);
        } catch (RuntimeException | Error e) {
            unanswered(batch, e);
            return batch.size() > 1 ? halves(node, batch, (n, half) -> skippingLocked(n, half, waits)) : e;
        }
    }

    private void tellLockedFromLost(UUID node, List<Ended> unwritten) {
        Set<ClaimKey> missing = jobs.missing(
                node, unwritten.stream().map(one -> one.finish.key()).toList());
        Set<ClaimKey> finished = missing.isEmpty() ? Set.of() : jobs.finished(node, missing);
        Set<ClaimKey> own = endedByOurselves(node, unwritten, missing);
        for (Ended one : unwritten) {
            ClaimKey key = one.finish.key();
            if (missing.contains(key)) {
                settle(one.running, finished.contains(key) || own.contains(key));
            } else {
                setAside(one);
            }
        }
    }

    // Answers that got lost -----------------------------------------------------------------------------------

    /** The statement that wrote these may have been committed all the same. */
    private static void unanswered(List<Ended> batch, Throwable failure) {
        if (!DatabaseFault.isAnswered(failure)) {
            batch.forEach(one -> one.running.endUnanswered());
        }
    }

    /**
     * Of claims that this node has not got any more, those that it has ended itself, by a statement whose answer got lost. A job
     * that was deleted or given back by that statement looks as if another node had taken it.
     */
    private Set<ClaimKey> endedByOurselves(UUID node, List<Ended> batch, Set<ClaimKey> gone) {
        Map<ClaimKey, Integer> unanswered = new HashMap<>();
        for (Ended one : batch) {
            if (gone.contains(one.finish.key()) && one.running.isEndUnanswered()) {
                unanswered.put(one.finish.key(), one.running.claimed().recoveries());
            }
        }
        if (unanswered.isEmpty()) {
            return Set.of();
        }
        Set<ClaimKey> own = jobs.endedByHolder(node, unanswered);
        own.forEach(key ->
                log.debug("job {} epoch {}: its end was written, only the answer got lost", key.id(), key.epoch()));
        return own;
    }

    // All others ----------------------------------------------------------------------------------------------

    /** Writes ends of one node with one statement; answers what kept it from that. */
    private interface Writer {
        @Nullable
        Throwable write(UUID node, List<Ended> part);
    }

    /** Writes what can be written; answers what kept the rest from it. */
    private static @Nullable Throwable write(List<Ended> batch, Writer writer) {
        // Claims of a former membership are lost; the guards say so.
        Map<UUID, List<Ended>> byNode = new LinkedHashMap<>();
        batch.forEach(one -> byNode.computeIfAbsent(one.running.node(), n -> new ArrayList<>())
                .add(one));
        Throwable failure = null;
        for (Map.Entry<UUID, List<Ended>> group : byNode.entrySet()) {
            Throwable own = write(group.getKey(), group.getValue(), writer);
            failure = own == null ? failure : own;
        }
        return failure;
    }

    /**
     * Each statement by itself: if one fails, what another has written must not be written again. A job that was deleted, or
     * given back, by the first would look like a lost claim.
     */
    private static @Nullable Throwable write(UUID node, List<Ended> batch, Writer writer) {
        var byKey = new HashMap<ClaimKey, Ended>();
        batch.forEach(one -> byKey.put(one.finish.key(), one));
        Throwable failure = null;
        for (List<Finish> part :
                JobStore.statements(batch.stream().map(Ended::finish).toList())) {
            Throwable own = writer.write(
                    node,
                    part.stream()
                            .map(finish -> Objects.requireNonNull(byKey.get(finish.key())))
                            .toList());
            failure = failure == null ? own : failure;
        }
        return failure;
    }

    private @Nullable Throwable writeTogether(UUID node, List<Ended> batch) {
        if (isSkipping()) {
            return skippingLocked(node, batch, new int[] {0});
        }
        try {
            Set<ClaimKey> lost =
                    jobs.finish(node, batch.stream().map(Ended::finish).toList());
            Set<ClaimKey> own = endedByOurselves(node, batch, lost);
            batch.forEach(
                    one -> settle(one.running, !lost.contains(one.finish.key()) || own.contains(one.finish.key())));
            return null;
        } catch (DataAccessException e) {
            if (JobStore.isLocked(e)) {
                startSkipping();
                return skippingLocked(node, batch, new int[] {0});
            }
            if (!JobStore.isRefusal(e)) {
                unanswered(batch, e);
                return e;
            }
            // One row that cannot be stored must not keep its neighbours from it.
            return batch.size() > 1 ? halves(node, batch, this::writeTogether) : refused(node, batch.get(0), e);
        } catch (RuntimeException | Error e) {
            // Whatever it is: without this thread no job would ever end.
            unanswered(batch, e);
            return batch.size() > 1 ? halves(node, batch, this::writeTogether) : e;
        }
    }

    private static @Nullable Throwable halves(UUID node, List<Ended> batch, Writer writer) {
        Throwable first = writer.write(node, List.copyOf(batch.subList(0, batch.size() / 2)));
        Throwable second = writer.write(node, List.copyOf(batch.subList(batch.size() / 2, batch.size())));
        return first != null ? first : second;
    }

    private @Nullable Throwable refused(UUID node, Ended culprit, Throwable refusal) {
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
                        + (refusal instanceof DataAccessException access ? access.getMostSpecificCause() : refusal)
                                .getMessage()),
                0,
                0,
                null,
                null,
                finish.retention(),
                finish.ranMillis(),
                false);
        try {
            Set<ClaimKey> lost = jobs.finish(node, List.of(failed));
            settle(
                    culprit.running,
                    endedByOurselves(node, List.of(culprit), lost).containsAll(lost));
            return null;
        } catch (DataAccessException e) {
            if (JobStore.isLocked(e)) {
                setAside(culprit);
                return null;
            }
            unanswered(List.of(culprit), e);
            return e;
        }
    }

    /** What happened to it, once: whether its end is written, or its claim was lost. */
    void settle(Running running, boolean written) {
        if (running.stage() == Running.Stage.ENDED) {
            return;
        }
        running.end();
        try {
            settled.accept(running, written);
        } catch (RuntimeException | Error e) {
            // Its neighbours are settled all the same: they were written by the same statement.
            log.warn("job {} {}: what follows its end failed", running.name(), running.id(), ErrorText.loggable(e));
        }
    }
}

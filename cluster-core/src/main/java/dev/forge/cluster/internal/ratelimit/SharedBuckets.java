package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.Grant;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.Wish;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimiterBackend;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.NonTransientDataAccessException;
import org.springframework.dao.NonTransientDataAccessResourceException;
import org.springframework.dao.PessimisticLockingFailureException;
import org.springframework.dao.QueryTimeoutException;
import org.springframework.dao.UncategorizedDataAccessException;
import org.springframework.scheduling.concurrent.CustomizableThreadFactory;

/**
 * Buckets in the database. Calls that come while a statement is under way go into the next one together, so that one
 * connection serves thousands of them a second, and a bucket that everybody wants is locked once for all callers of a
 * node. The connection is its own, opened by the first call: neither the application's pool nor heartbeats wait for it.
 *
 * <p>A bucket whose row another session has locked holds the others up once, until the statement times out. From then on it is
 * asked for alone and after the others, and only if its row is free.
 */
public final class SharedBuckets implements RateLimiterBackend, AutoCloseable {

    /** How long a caller waits: a request is better decided by {@code on-database-loss} than kept waiting. */
    private static final Duration PATIENCE = Duration.ofSeconds(2);

    private static final int BATCH = 500;
    private static final int MOST_LOCKED = 1_000;
    private static final int LOOKS = 5;
    private static final Duration BETWEEN_LOOKS = Duration.ofMillis(10);
    private static final Duration IDLE_THREAD = Duration.ofSeconds(30);

    private final ControlConnections connections;
    private final RateLimitStore store;
    private final ExecutorService thread;
    private final Deque<Ask> waiting = new ArrayDeque<>();
    private boolean taking;

    /** Buckets whose rows were found locked. Used by the one thread only. */
    private final Set<String> locked = new HashSet<>();

    /** A caller, with what it wants. */
    private record Ask(String bucket, RateLimit limit, int permits, CompletableFuture<RateLimitDecision> answer) {
        boolean sharesStatementWith(Ask other) {
            return permits == other.permits && limit.equals(other.limit);
        }
    }

    /** @param connections one is enough */
    public SharedBuckets(Schema schema, ControlConnections connections) {
        this.connections = connections;
        this.store = new RateLimitStore(schema, connections);
        var threads = new CustomizableThreadFactory("forge-rate-limits-");
        threads.setDaemon(true);
        var one = new ThreadPoolExecutor(
                1, 1, IDLE_THREAD.toMillis(), TimeUnit.MILLISECONDS, new LinkedBlockingQueue<>(), threads);
        one.allowCoreThreadTimeOut(true);
        this.thread = one;
    }

    @Override
    public RateLimitDecision tryAcquire(String bucket, RateLimit limit, int permits) {
        var ask = new Ask(bucket, limit, permits, new CompletableFuture<>());
        synchronized (waiting) {
            if (!taking) {
                // First, for it may refuse; the thread waits for this lock.
                thread.execute(this::takeAll);
                taking = true;
            }
            waiting.add(ask);
        }
        try {
            return ask.answer.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException failure
                    ? failure
                    : new IllegalStateException("could not ask the database", e.getCause());
        } catch (TimeoutException e) {
            forget(ask);
            throw new IllegalStateException("the database did not answer within " + PATIENCE, e);
        } catch (InterruptedException e) {
            forget(ask);
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while asking the database", e);
        }
    }

    /** Not to be debited later for what is decided elsewhere now. */
    private void forget(Ask ask) {
        synchronized (waiting) {
            waiting.remove(ask);
        }
    }

    private void takeAll() {
        List<List<Ask>> batch = nextBatch();
        while (!batch.isEmpty()) {
            takeOrFail(batch);
            batch = nextBatch();
        }
    }

    /** A bucket that cannot be asked for, because somebody has locked it or of its name, does not fail the others. */
    private void takeOrFail(List<List<Ask>> batch) {
        var free = new ArrayList<List<Ask>>();
        var suspected = new ArrayList<List<Ask>>();
        for (List<Ask> asks : batch) {
            (locked.contains(asks.get(0).bucket) ? suspected : free).add(asks);
        }
        if (!free.isEmpty()) {
            takeFree(free);
        }
        suspected.forEach(this::takeIfFree);
    }

    private void takeFree(List<List<Ask>> batch) {
        try {
            take(batch);
        } catch (RuntimeException | Error e) {
            if (isLost(e)) {
                fail(batch, e);
            } else if (batch.size() == 1) {
                noteLocked(batch);
                fail(batch, e);
            } else {
                // Of several, one is to blame: those that are not locked together, or else each alone.
                if (noteLocked(batch)) {
                    takeOrFail(batch);
                } else {
                    batch.forEach(asks -> takeFree(List.of(asks)));
                }
            }
        }
    }

    private static void fail(List<List<Ask>> batch, Throwable e) {
        batch.forEach(asks -> asks.forEach(ask -> ask.answer.completeExceptionally(e)));
    }

    /** Remembers which of the buckets are locked; returns whether any is. */
    private boolean noteLocked(List<List<Ask>> batch) {
        try {
            Set<String> found =
                    store.locked(batch.stream().map(asks -> asks.get(0).bucket).toList());
            if (locked.size() + found.size() > MOST_LOCKED) {
                locked.clear();
            }
            locked.addAll(found);
            return !found.isEmpty();
        } catch (RuntimeException e) {
            // Each alone will find out what is wrong.
            return false;
        }
    }

    private void takeIfFree(List<Ask> asks) {
        List<List<Ask>> alone = List.of(asks);
        String bucket = asks.get(0).bucket;
        try {
            if (!isSoonFree(bucket)) {
                throw new CannotAcquireLockException(
                        "another session has locked the row of the bucket in forge_rate_limits");
            }
            locked.remove(bucket);
        } catch (RuntimeException | Error e) {
            fail(alone, e);
            return;
        }
        takeFree(alone);
    }

    /** Looks several times: a statement of another node locks the row, too, but only for a moment. */
    private boolean isSoonFree(String bucket) {
        for (int look = 0; look < LOOKS; look++) {
            if (store.locked(List.of(bucket)).isEmpty()) {
                return true;
            }
            try {
                // Nobody counts down: the row is released in the database.
                new CountDownLatch(1).await(BETWEEN_LOOKS.toMillis(), TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return false;
    }

    /** Whether it is the database that is out of reach, rather than one bucket. */
    static boolean isLost(Throwable failure) {
        return !(failure instanceof NonTransientDataAccessException
                        || failure instanceof UncategorizedDataAccessException
                        || failure instanceof PessimisticLockingFailureException
                        || failure instanceof QueryTimeoutException)
                || failure instanceof NonTransientDataAccessResourceException;
    }

    /** Whoever waits, by bucket. A bucket is in a statement once: who wants something else of it has to wait. */
    private List<List<Ask>> nextBatch() {
        Map<String, List<Ask>> batch = new LinkedHashMap<>();
        synchronized (waiting) {
            var later = new ArrayList<Ask>();
            for (int i = 0; i < BATCH && !waiting.isEmpty(); i++) {
                Ask ask = waiting.remove();
                List<Ask> same = batch.computeIfAbsent(ask.bucket, bucket -> new ArrayList<>());
                if (same.isEmpty() || same.get(0).sharesStatementWith(ask)) {
                    same.add(ask);
                } else {
                    later.add(ask);
                }
            }
            for (int i = later.size() - 1; i >= 0; i--) {
                waiting.addFirst(later.get(i));
            }
            taking = !batch.isEmpty();
        }
        return List.copyOf(batch.values());
    }

    private void take(List<List<Ask>> batch) {
        Map<String, List<Ask>> byBucket = new LinkedHashMap<>();
        var wishes = new ArrayList<Wish>();
        for (List<Ask> asks : batch) {
            Ask ask = asks.get(0);
            byBucket.put(ask.bucket, asks);
            wishes.add(new Wish(
                    ask.bucket,
                    asks.size(),
                    ask.permits,
                    (double) ask.limit.burst(),
                    TokenBucket.perSecond(ask.limit)));
        }
        for (Grant grant : store.take(wishes)) {
            List<Ask> asks = Objects.requireNonNull(byBucket.get(grant.bucket()));
            for (int i = 0; i < asks.size(); i++) {
                Ask ask = asks.get(i);
                ask.answer.complete(TokenBucket.decision(i < grant.granted(), ask.limit, grant.missing(), ask.permits));
            }
        }
    }

    @Override
    public void close() {
        thread.shutdown();
        connections.close();
    }
}

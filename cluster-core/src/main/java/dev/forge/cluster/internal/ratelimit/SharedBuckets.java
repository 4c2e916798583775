// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.Grant;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.Request;
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
 * Token buckets in the database. Calls that arrive while a statement runs share the next one, so that one connection serves
 * thousands of calls a second, and a busy bucket is locked once for all callers of a node. The first call opens the connection,
 * which is separate from the application's pool and from the connections of heartbeats.
 *
 * <p>A bucket whose row another session has locked delays the others once, until the statement times out. After that it is
 * requested alone, after the others, and only if its row is free.
 */
public final class SharedBuckets implements RateLimiterBackend, AutoCloseable {

    /** How long a caller waits until {@code on-database-loss} decides. */
    private static final Duration PATIENCE = Duration.ofSeconds(2);

    private static final int BATCH = 500;
    private static final int MOST_LOCKED = 1_000;
    private static final int LOOKS = 5;
    private static final Duration BETWEEN_LOOKS = Duration.ofMillis(10);
    private static final Duration IDLE_THREAD = Duration.ofSeconds(30);

    private final ControlConnections connections;
    private final RateLimitStore store;
    private final ExecutorService thread;
    private final Deque<Call> waiting = new ArrayDeque<>();
    private boolean taking;

    /** Buckets whose rows were found locked. Used only by the thread. */
    private final Set<String> locked = new HashSet<>();

    /** A call that waits for its decision. */
    private record Call(String bucket, RateLimit limit, int permits, CompletableFuture<RateLimitDecision> decision) {
        boolean sharesStatementWith(Call other) {
            return permits == other.permits && limit.equals(other.limit);
        }
    }

    /** @param connections a pool of one connection is enough */
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
        var call = new Call(bucket, limit, permits, new CompletableFuture<>());
        synchronized (waiting) {
            if (!taking) {
                // First, because it may throw; the task waits for this lock.
                thread.execute(this::takeAll);
                taking = true;
            }
            waiting.add(call);
        }
        try {
            return call.decision.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException failure
                    ? failure
                    : new IllegalStateException("Rate limit could not be read from the database", e.getCause());
        } catch (TimeoutException e) {
            forget(call);
            throw new IllegalStateException("Database did not respond within " + PATIENCE, e);
        } catch (InterruptedException e) {
            forget(call);
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while waiting for the database", e);
        }
    }

    /** Removes a call that is decided without the database, so that it consumes no tokens there. */
    private void forget(Call call) {
        synchronized (waiting) {
            waiting.remove(call);
        }
    }

    private void takeAll() {
        List<List<Call>> batch = nextBatch();
        while (!batch.isEmpty()) {
            takeOrFail(batch);
            batch = nextBatch();
        }
    }

    /** Separates buckets that fail from the others: one that is locked, or has a bad name, must not fail the others. */
    private void takeOrFail(List<List<Call>> batch) {
        var free = new ArrayList<List<Call>>();
        var suspected = new ArrayList<List<Call>>();
        for (List<Call> calls : batch) {
            (locked.contains(calls.get(0).bucket) ? suspected : free).add(calls);
        }
        if (!free.isEmpty()) {
            takeFree(free);
        }
        suspected.forEach(this::takeIfFree);
    }

    private void takeFree(List<List<Call>> batch) {
        try {
            take(batch);
        } catch (RuntimeException | Error e) {
            if (isLost(e)) {
                fail(batch, e);
            } else if (batch.size() == 1) {
                noteLocked(batch);
                fail(batch, e);
            } else {
                // One of several failed: first those together that are not locked, or else each alone.
                if (noteLocked(batch)) {
                    takeOrFail(batch);
                } else {
                    batch.forEach(calls -> takeFree(List.of(calls)));
                }
            }
        }
    }

    private static void fail(List<List<Call>> batch, Throwable e) {
        batch.forEach(calls -> calls.forEach(call -> call.decision.completeExceptionally(e)));
    }

    /** Records which of the buckets are locked; returns whether any is. */
    private boolean noteLocked(List<List<Call>> batch) {
        try {
            Set<String> found = store.locked(
                    batch.stream().map(calls -> calls.get(0).bucket).toList());
            if (locked.size() + found.size() > MOST_LOCKED) {
                locked.clear();
            }
            locked.addAll(found);
            return !found.isEmpty();
        } catch (RuntimeException e) {
            // The buckets are then requested one by one, and each reports its own failure.
            return false;
        }
    }

    private void takeIfFree(List<Call> calls) {
        List<List<Call>> alone = List.of(calls);
        String bucket = calls.get(0).bucket;
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

    /** Checks several times: a statement of another node locks the row, too, but only for a moment. */
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

    /** Returns whether the database is unreachable, rather than one bucket locked or rejected. */
    static boolean isLost(Throwable failure) {
        return !(failure instanceof NonTransientDataAccessException
                        || failure instanceof UncategorizedDataAccessException
                        || failure instanceof PessimisticLockingFailureException
                        || failure instanceof QueryTimeoutException)
                || failure instanceof NonTransientDataAccessResourceException;
    }

    /** Returns waiting calls by bucket. A statement has each bucket once, so calls with another limit wait for the next one. */
    private List<List<Call>> nextBatch() {
        Map<String, List<Call>> batch = new LinkedHashMap<>();
        synchronized (waiting) {
            var later = new ArrayList<Call>();
            for (int i = 0; i < BATCH && !waiting.isEmpty(); i++) {
                Call call = waiting.remove();
                List<Call> same = batch.computeIfAbsent(call.bucket, bucket -> new ArrayList<>());
                if (same.isEmpty() || same.get(0).sharesStatementWith(call)) {
                    same.add(call);
                } else {
                    later.add(call);
                }
            }
            for (int i = later.size() - 1; i >= 0; i--) {
                waiting.addFirst(later.get(i));
            }
            taking = !batch.isEmpty();
        }
        return List.copyOf(batch.values());
    }

    private void take(List<List<Call>> batch) {
        Map<String, List<Call>> byBucket = new LinkedHashMap<>();
        var requests = new ArrayList<Request>();
        for (List<Call> calls : batch) {
            Call call = calls.get(0);
            byBucket.put(call.bucket, calls);
            requests.add(new Request(
                    call.bucket,
                    calls.size(),
                    call.permits,
                    (double) call.limit.burst(),
                    TokenBucket.perSecond(call.limit)));
        }
        for (Grant grant : store.take(requests)) {
            List<Call> calls = Objects.requireNonNull(byBucket.get(grant.bucket()));
            for (int i = 0; i < calls.size(); i++) {
                Call call = calls.get(i);
                call.decision.complete(
                        TokenBucket.decision(i < grant.granted(), call.limit, grant.missing(), call.permits));
            }
        }
    }

    @Override
    public void close() {
        thread.shutdown();
        connections.close();
    }
}

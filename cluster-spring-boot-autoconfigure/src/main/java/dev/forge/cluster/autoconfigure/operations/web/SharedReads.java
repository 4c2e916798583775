// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Shares responses between callers with equal permissions, so that many open pages cost the database as much as one.
 *
 * <p>A response is shared for a second from the start of its read. Callers that come while it is being read wait for it, unless the
 * read seems to be stuck. Memory
 * and waiting callers are bounded: large responses are given to waiting callers and then forgotten.
 */
final class SharedReads {

    private static final long SHARED_NANOS = Duration.ofSeconds(1).toNanos();
    private static final Duration PATIENCE = Duration.ofSeconds(15);
    static final int MOST_ENTRIES = 200;
    static final long MOST_BYTES = 8 * 1024 * 1024;
    private static final int LARGEST = 1024 * 1024;

    /** Waiting callers hold threads of the application's web server, which serves others too. */
    static final int MOST_WAITING = 50;

    private final Semaphore waiting = new Semaphore(MOST_WAITING);

    private final ConcurrentHashMap<Key, Entry> entries = new ConcurrentHashMap<>();
    private final LongSupplier nanos;

    SharedReads(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /**
     * What a response depends on.
     *
     * @param values whether values are shown
     */
    record Key(List<String> path, Map<String, String> parameters, boolean values) {}

    private static final class Entry {
        private final long startedAt;
        private final CompletableFuture<SiteResponse> response = new CompletableFuture<>();

        Entry(long startedAt) {
            this.startedAt = startedAt;
        }

        boolean isFresh(long now) {
            return now - startedAt < (response.isDone() ? SHARED_NANOS : PATIENCE.toNanos());
        }

        int size() {
            return response.isDone() && !response.isCompletedExceptionally()
                    ? response.join().body().length
                    : 0;
        }
    }

    /** Returns a response that is being shared, or reads it. An exception of the read reaches all who wait for it. */
    SiteResponse get(Key key, Supplier<SiteResponse> read) {
        long now = nanos.getAsLong();
        var own = new Entry(now);
        Entry shared = entries.compute(key, (same, found) -> found != null && found.isFresh(now) ? found : own);
        if (shared != own) {
            return await(shared);
        }
        try {
            SiteResponse response = read.get();
            own.response.complete(response);
            return response;
        } catch (Throwable e) {
            own.response.completeExceptionally(e);
            throw e;
        } finally {
            if (own.size() == 0 || own.size() > LARGEST || !hasRoom()) {
                entries.remove(key, own);
            }
        }
    }

    /** Forgets all responses: something has changed. */
    void clear() {
        entries.clear();
    }

    int size() {
        return entries.size();
    }

    int waiting() {
        return MOST_WAITING - waiting.availablePermits();
    }

    private boolean hasRoom() {
        long now = nanos.getAsLong();
        entries.values().removeIf(entry -> !entry.isFresh(now));
        long bytes = entries.values().stream().mapToLong(Entry::size).sum();
        return entries.size() <= MOST_ENTRIES && bytes <= MOST_BYTES;
    }

    private SiteResponse await(Entry entry) {
        if (entry.response.isDone()) {
            return result(entry);
        }
        if (!waiting.tryAcquire()) {
            throw new RefusedRequestException(503, "busy", "Too many callers wait for the database. Try again later.");
        }
        try {
            return result(entry);
        } finally {
            waiting.release();
        }
    }

    private static SiteResponse result(Entry entry) {
        try {
            return entry.response.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RefusedRequestException(503, "busy", "Interrupted while waiting for the database");
        } catch (TimeoutException e) {
            throw new RefusedRequestException(503, "busy", "The database did not respond in time. Try again later.");
        } catch (ExecutionException e) {
            // What it means is decided in one place, for all callers alike.
            if (e.getCause() instanceof RuntimeException failure) {
                throw failure;
            }
            throw new IllegalStateException(e.getCause());
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Coalesces concurrent requests into one statement: requests that arrive while a statement runs share the next one. The caller
 * that has waited longest runs it on its own thread, so that a single caller never waits for another.
 *
 * @param <K> the key of a request; of two requests with the same key the later one waits for a further statement
 * @param <W> a request
 * @param <A> a result
 */
public final class Coalescer<K, W, A> {

    private static final Logger log = GuardedLogger.of(Coalescer.class);

    private final int most;
    private final Function<Map<K, W>, Map<K, A>> statement;
    private final Queue<Call<K, W, A>> waiting = new ArrayDeque<>();
    private boolean underWay;

    private record Call<K, W, A>(K key, W request, CompletableFuture<Turn<A>> turn) {}

    /** What a caller waits for: its turn to run the statement, or its result. */
    private record Turn<A>(boolean runs, @Nullable A result) {}

    /**
     * @param most how many requests share a statement
     * @param statement runs requests; results may be missing
     */
    public Coalescer(int most, Function<Map<K, W>, Map<K, A>> statement) {
        this.most = most;
        this.statement = statement;
    }

    /** Returns the result of a request; null if the statement had none or failed. The caller then runs a statement of its own. */
    @Nullable
    public A ask(K key, W request) {
        var call = new Call<K, W, A>(key, request, new CompletableFuture<>());
        synchronized (waiting) {
            waiting.add(call);
            if (!underWay) {
                underWay = true;
                call.turn.complete(new Turn<>(true, null));
            }
        }
        Turn<A> turn = call.turn.join();
        return turn.runs ? runForAll(call) : turn.result;
    }

    private @Nullable A runForAll(Call<K, W, A> own) {
        List<Call<K, W, A>> batch = nextBatch();
        Map<K, A> results = Map.of();
        try {
            var requests = new LinkedHashMap<K, W>();
            batch.forEach(call -> requests.put(call.key, call.request));
            results = statement.apply(requests);
        } catch (RuntimeException e) {
            // One request may be the cause, which its own statement will show.
            log.debug("{} requests failed in one statement; each is run alone", batch.size(), e);
        } finally {
            for (Call<K, W, A> call : batch) {
                // No effect on the caller's own turn, which is complete.
                call.turn.complete(new Turn<>(false, results.get(call.key)));
            }
            passOn();
        }
        return results.get(own.key);
    }

    /** Returns the calls that have waited longest, the caller's own first. */
    private List<Call<K, W, A>> nextBatch() {
        var batch = new ArrayList<Call<K, W, A>>();
        Set<K> keys = new HashSet<>();
        synchronized (waiting) {
            var others = waiting.iterator();
            while (others.hasNext() && batch.size() < most) {
                Call<K, W, A> call = others.next();
                if (keys.add(call.key)) {
                    batch.add(call);
                    others.remove();
                }
            }
        }
        return batch;
    }

    private void passOn() {
        synchronized (waiting) {
            Call<K, W, A> next = waiting.peek();
            if (next == null) {
                underWay = false;
            } else {
                next.turn.complete(new Turn<>(true, null));
            }
        }
    }
}

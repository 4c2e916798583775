package dev.forge.cluster.internal.engine;

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
 * Lets threads that each want something small of the database want it together: those that come while a statement is under
 * way share the next. It is sent by the one that has waited longest, on its own thread, so that a lone caller waits for nobody.
 *
 * @param <K> what a wish is about; of two about the same the later one waits
 * @param <W> a wish
 * @param <A> an answer
 */
final class Gathering<K, W, A> {

    private static final Logger log = GuardedLogger.of(Gathering.class);

    private final int most;
    private final Function<Map<K, W>, Map<K, A>> statement;
    private final Queue<Call<K, W, A>> waiting = new ArrayDeque<>();
    private boolean underWay;

    private record Call<K, W, A>(K key, W wish, CompletableFuture<Turn<A>> turn) {}

    /** What a caller waits for: to be the one who asks, or the answer. */
    private record Turn<A>(boolean asks, @Nullable A answer) {}

    /**
     * @param most how many share a statement
     * @param statement answers what it can
     */
    Gathering(int most, Function<Map<K, W>, Map<K, A>> statement) {
        this.most = most;
        this.statement = statement;
    }

    /** The answer; null if the statement had none, or failed: then the caller had better ask by itself. */
    @Nullable
    A ask(K key, W wish) {
        var call = new Call<K, W, A>(key, wish, new CompletableFuture<>());
        synchronized (waiting) {
            waiting.add(call);
            if (!underWay) {
                underWay = true;
                call.turn.complete(new Turn<>(true, null));
            }
        }
        Turn<A> turn = call.turn.join();
        return turn.asks ? askForAll(call) : turn.answer;
    }

    private @Nullable A askForAll(Call<K, W, A> own) {
        List<Call<K, W, A>> together = together();
        Map<K, A> answers = Map.of();
        try {
            var wishes = new LinkedHashMap<K, W>();
            together.forEach(call -> wishes.put(call.key, call.wish));
            answers = statement.apply(wishes);
        } catch (RuntimeException e) {
            // One of them may be to blame, and finds out by itself.
            log.debug("{} together could not be asked for; each asks for itself", together.size(), e);
        } finally {
            for (Call<K, W, A> call : together) {
                // That of the caller itself is complete.
                call.turn.complete(new Turn<>(false, answers.get(call.key)));
            }
            passOn();
        }
        return answers.get(own.key);
    }

    /** Those that have waited longest, the caller first. */
    private List<Call<K, W, A>> together() {
        var together = new ArrayList<Call<K, W, A>>();
        Set<K> keys = new HashSet<>();
        synchronized (waiting) {
            var others = waiting.iterator();
            while (others.hasNext() && together.size() < most) {
                Call<K, W, A> call = others.next();
                if (keys.add(call.key)) {
                    together.add(call);
                    others.remove();
                }
            }
        }
        return together;
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

package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.job.PermanentJobFailure;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.springframework.util.ClassUtils;

/**
 * Waits for results that a handler has not computed when it returns: futures and, if Reactive Streams is on the class path,
 * reactive types. The thread of the handler waits, so that whatever interrupts the handler (its timeout, a cancelled job, a
 * lost claim, a drain) ends the wait and cancels the future.
 */
public final class AsyncResults {

    private static final boolean REACTIVE =
            ClassUtils.isPresent("org.reactivestreams.Publisher", AsyncResults.class.getClassLoader());

    /** A future of a future is waited for, too. */
    private static final int DEEPEST = 3;

    private AsyncResults() {}

    /** Whether a value of that type is a result that has to be waited for. */
    public static boolean isAsync(Class<?> type) {
        return Future.class.isAssignableFrom(type)
                || CompletionStage.class.isAssignableFrom(type)
                || Flow.Publisher.class.isAssignableFrom(type)
                || (REACTIVE && ReactiveResults.isReactive(type));
    }

    /** Whether the value is a result that has to be waited for. */
    public static boolean isAsync(@Nullable Object value) {
        return value != null && isAsync(value.getClass());
    }

    /**
     * Returns the result: the value itself, or the value that the future or the reactive type ends with. A type of many
     * values becomes a list. An interrupt cancels the future.
     *
     * @throws Exception the exception of the future itself, not the one that wraps it
     */
    public static @Nullable Object await(@Nullable Object returned) throws Exception {
        Object value = returned;
        for (int depth = 0; depth < DEEPEST && value != null && isAsync(value); depth++) {
            value = get(future(value));
        }
        return value;
    }

    /**
     * Returns the result of a handler that runs in a transaction: the value itself, or that of a future that has ended. Work
     * that goes on elsewhere would not be part of the transaction, so such a future is cancelled.
     *
     * @throws PermanentJobFailure if the result is not there yet
     */
    public static @Nullable Object requireFinished(@Nullable Object returned) throws Exception {
        if (returned == null || !isAsync(returned)) {
            return returned;
        }
        if (returned instanceof Future<?> future && future.isDone()) {
            return requireFinished(get(future));
        }
        cancel(returned);
        throw new PermanentJobFailure(
                "its handler is @Transactional and returned a future that has not finished (%s), whose work would not be part of the transaction: wait for it inside of the handler, or leave @Transactional out"
                        .formatted(returned.getClass().getName()));
    }

    /** Whether the value is a result that is not there yet. */
    public static boolean isUnfinished(@Nullable Object value) {
        return isAsync(value) && !(value instanceof Future<?> future && future.isDone());
    }

    /** Cancels what was returned, for somebody who does not wait for it. */
    public static void cancel(@Nullable Object returned) {
        if (returned instanceof Future<?> future) {
            future.cancel(true);
        } else if (returned instanceof CompletionStage<?> stage) {
            future(stage).cancel(true);
        }
        // A reactive type has not begun: nobody has subscribed to it.
    }

    private static Future<?> future(Object value) {
        if (value instanceof Future<?> future) {
            return future;
        }
        if (value instanceof CompletionStage<?> stage) {
            return stage.toCompletableFuture();
        }
        Future<?> future = REACTIVE ? ReactiveResults.future(value) : null;
        if (future == null) {
            throw new PermanentJobFailure(
                    "its handler returned a %s, which nothing on the class path can subscribe to: add io.projectreactor:reactor-core, or return a CompletableFuture"
                            .formatted(value.getClass().getName()));
        }
        return future;
    }

    private static @Nullable Object get(Future<?> future) throws Exception {
        try {
            return future.get();
        } catch (InterruptedException e) {
            future.cancel(true);
            throw e;
        } catch (ExecutionException e) {
            throw unwrapped(e);
        }
    }

    private static Exception unwrapped(ExecutionException failure) {
        Throwable cause = failure.getCause();
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof Error error) {
            throw error;
        }
        return cause instanceof Exception exception ? exception : failure;
    }
}

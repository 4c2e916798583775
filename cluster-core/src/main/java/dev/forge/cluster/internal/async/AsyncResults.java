// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.async;

import dev.forge.cluster.job.NonRetryableJobException;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/**
 * Waits for the results of handlers that return futures or, if Reactive Streams is on the class path, reactive types. The
 * handler's own thread waits, so that an interrupt of the handler (timeout, cancelled job, lost claim, drain) ends the wait and
 * cancels the future.
 */
public final class AsyncResults {

    private static final boolean REACTIVE =
            ClassUtils.isPresent("org.reactivestreams.Publisher", AsyncResults.class.getClassLoader());

    /** How many levels of futures of futures are waited for. */
    private static final int MAX_DEPTH = 3;

    private AsyncResults() {}

    /** Returns whether values of a type have to be waited for. */
    public static boolean isAsync(Class<?> type) {
        return Future.class.isAssignableFrom(type)
                || CompletionStage.class.isAssignableFrom(type)
                || Flow.Publisher.class.isAssignableFrom(type)
                || (REACTIVE && ReactiveResults.isReactive(type));
    }

    /** Returns the type of the value that is waited for, {@code List} for a reactive type of many values; or the type itself. */
    public static ResolvableType valueType(ResolvableType type) {
        ResolvableType value = type;
        for (int depth = 0; depth < MAX_DEPTH; depth++) {
            Class<?> known = value.toClass();
            if (CompletionStage.class.isAssignableFrom(known)) {
                value = value.as(CompletionStage.class).getGeneric();
            } else if (Future.class.isAssignableFrom(known)) {
                value = value.as(Future.class).getGeneric();
            } else if (!isAsync(known)) {
                return value;
            } else if (REACTIVE && ReactiveResults.isSingle(known)) {
                value = value.getGeneric();
            } else {
                return ResolvableType.forClass(List.class);
            }
        }
        return value;
    }

    /** Returns whether a value has to be waited for. */
    public static boolean isAsync(@Nullable Object value) {
        return value != null && isAsync(value.getClass());
    }

    /**
     * Returns the result: the value itself, or the value of the future or the reactive type. A type of many values becomes a
     * list. An interrupt cancels the future.
     *
     * @throws Exception the exception of the future itself, unwrapped
     */
    public static @Nullable Object await(@Nullable Object returned) throws Exception {
        Object value = returned;
        for (int depth = 0; depth < MAX_DEPTH && value != null && isAsync(value); depth++) {
            value = get(future(value));
        }
        return value;
    }

    /**
     * Returns the result of a handler that runs in a transaction: the value itself, or that of a completed future. The work of an
     * incomplete future would not be part of the transaction, so such a future is cancelled.
     *
     * @throws NonRetryableJobException if the future is incomplete
     */
    public static @Nullable Object requireFinished(@Nullable Object returned) throws Exception {
        if (returned == null || !isAsync(returned)) {
            return returned;
        }
        if (returned instanceof Future<?> future && future.isDone()) {
            return requireFinished(get(future));
        }
        cancel(returned);
        throw new NonRetryableJobException(
                "the handler is @Transactional and returned an incomplete future (%s), whose work would not be part of the transaction: wait for the future inside of the handler, or remove @Transactional"
                        .formatted(returned.getClass().getName()));
    }

    /** Returns whether a value is an incomplete future or a reactive type. */
    public static boolean isUnfinished(@Nullable Object value) {
        return isAsync(value) && !(value instanceof Future<?> future && future.isDone());
    }

    /** Cancels a future that the caller does not wait for. */
    public static void cancel(@Nullable Object returned) {
        if (returned instanceof Future<?> future) {
            future.cancel(true);
        } else if (returned instanceof CompletionStage<?> stage) {
            future(stage).cancel(true);
        }
        // A reactive type without a subscriber has not begun.
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
            throw new NonRetryableJobException(
                    "the handler returned a %s, and no library on the class path can subscribe to it: add io.projectreactor:reactor-core, or return a CompletableFuture"
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

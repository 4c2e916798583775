// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.async;

import dev.forge.cluster.job.NonRetryableJobException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;

/**
 * Turns reactive types into futures, with Spring's {@link ReactiveAdapterRegistry}. Separate from {@link AsyncResults}, so that
 * Reactive Streams may be absent.
 */
final class ReactiveResults {

    /** How many values a result may have. */
    static final int MOST_VALUES = 100_000;

    private ReactiveResults() {}

    static boolean isReactive(Class<?> type) {
        return Publisher.class.isAssignableFrom(type)
                || ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
    }

    /** Returns whether a reactive type has at most one value. */
    static boolean isSingle(Class<?> type) {
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(type);
        return adapter != null && !adapter.isMultiValue();
    }

    /**
     * Subscribes to a reactive type. Cancelling the future cancels the subscription.
     *
     * @return null if no library can subscribe to it
     */
    static @Nullable Future<?> future(Object value) {
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(null, value);
        if (adapter == null && !(value instanceof Publisher<?>)) {
            return null;
        }
        Publisher<?> publisher = adapter == null ? (Publisher<?>) value : adapter.toPublisher(value);
        var result = new Result(adapter == null || adapter.isMultiValue());
        publisher.subscribe(result.subscriber);
        return result;
    }

    private static final class Result extends CompletableFuture<Object> {

        private final Values subscriber;

        Result(boolean many) {
            this.subscriber = new Values(this, many);
        }

        @Override
        public boolean cancel(boolean interrupt) {
            boolean cancelled = super.cancel(interrupt);
            subscriber.cancel();
            return cancelled;
        }
    }

    private static final class Values implements Subscriber<Object> {

        private final Result result;
        private final boolean many;
        private final List<Object> values = new ArrayList<>();
        private @Nullable Subscription subscription;

        Values(Result result, boolean many) {
            this.result = result;
            this.many = many;
        }

        @Override
        public void onSubscribe(Subscription started) {
            boolean cancelled;
            synchronized (this) {
                cancelled = subscription != null || result.isCancelled();
                subscription = started;
            }
            if (cancelled) {
                started.cancel();
            } else {
                started.request(Long.MAX_VALUE);
            }
        }

        @Override
        public void onNext(Object value) {
            if (values.size() < MOST_VALUES) {
                values.add(value);
                return;
            }
            cancel();
            result.completeExceptionally(new NonRetryableJobException(
                    "the handler returned more than %d values: end the stream with then(), or store the values elsewhere"
                            .formatted(MOST_VALUES)));
        }

        @Override
        public void onError(Throwable failure) {
            result.completeExceptionally(failure);
        }

        @Override
        public void onComplete() {
            result.complete(many ? List.copyOf(values) : values.isEmpty() ? null : values.get(0));
        }

        void cancel() {
            Subscription current;
            synchronized (this) {
                current = subscription;
            }
            if (current != null) {
                current.cancel();
            }
        }
    }
}

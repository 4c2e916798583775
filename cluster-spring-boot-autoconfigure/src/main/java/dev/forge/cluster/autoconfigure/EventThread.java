// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/**
 * Publishes the cluster's events to the application, in order and on one thread, so that a slow listener does not keep a leader
 * from renewing its lease.
 *
 * <p>At most {@value #CAPACITY} events wait for their listeners. Further events replace the oldest waiting ones, because the
 * latest events tell the present state. One warning is logged until all waiting events are published.
 */
final class EventThread implements Consumer<ClusterEvent> {

    private static final Logger log = GuardedLogger.of(EventThread.class);

    private static final int CAPACITY = 1_000;

    private final ApplicationEventPublisher publisher;
    private final AtomicBoolean dropping = new AtomicBoolean();
    private final ThreadPoolTaskExecutor executor = new ThreadPoolTaskExecutor();

    EventThread(ApplicationEventPublisher publisher) {
        this.publisher = publisher;
        executor.setThreadNamePrefix("forge-cluster-events-");
        executor.setCorePoolSize(1);
        executor.setMaxPoolSize(1);
        executor.setQueueCapacity(CAPACITY);
        executor.setRejectedExecutionHandler(this::dropOldest);
        executor.setDaemon(true);
        executor.setWaitForTasksToCompleteOnShutdown(true);
        executor.setAwaitTerminationSeconds(5);
    }

    void start() {
        executor.initialize();
    }

    /** Waits up to five seconds for waiting events: the last ones tell which leaderships were lost. */
    void stop() {
        executor.shutdown();
    }

    @Override
    public void accept(ClusterEvent event) {
        Map<String, String> origin = MDC.getCopyOfContextMap();
        try {
            executor.execute(() -> publish(event, origin));
        } catch (RuntimeException | Error e) {
            // There is no thread, or it has ended. The caller must not fail because of that.
            log.warn("Event {}: could not be published", Names.printable(event.toString()), ErrorText.loggable(e));
        }
    }

    private void dropOldest(Runnable publication, ThreadPoolExecutor thread) {
        if (thread.isShutdown()) {
            throw new RejectedExecutionException("the cluster's event thread has ended");
        }
        if (!dropping.getAndSet(true)) {
            log.warn(
                    "Cluster events: {} events wait for a slow listener. The oldest waiting events are dropped until it has"
                            + " caught up.",
                    CAPACITY);
        }
        thread.getQueue().poll();
        thread.execute(publication);
    }

    private void publish(Object event, @Nullable Map<String, String> origin) {
        try {
            if (origin != null) {
                MDC.setContextMap(origin);
            }
            publisher.publishEvent(event);
        } catch (RuntimeException e) {
            log.warn("Event {}: a listener failed", Names.printable(event.toString()), ErrorText.loggable(e));
        } finally {
            // The next event must not inherit what a listener has put there.
            MDC.clear();
            if (executor.getThreadPoolExecutor().getQueue().isEmpty()) {
                dropping.set(false);
            }
        }
    }
}

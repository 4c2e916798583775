package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/**
 * Publishes the events of the cluster to the application, in order and on a thread of its own: a slow listener must not keep a leader
 * from renewing its lease.
 */
final class EventThread implements Consumer<ClusterEvent> {

    private static final Logger log = GuardedLogger.of(EventThread.class);

    private final ApplicationEventPublisher publisher;
    private final ThreadPoolTaskExecutor executor = new ThreadPoolTaskExecutor();

    EventThread(ApplicationEventPublisher publisher) {
        this.publisher = publisher;
        executor.setThreadNamePrefix("forge-cluster-events-");
        executor.setCorePoolSize(1);
        executor.setMaxPoolSize(1);
        executor.setDaemon(true);
        executor.setWaitForTasksToCompleteOnShutdown(true);
        executor.setAwaitTerminationSeconds(5);
    }

    void start() {
        executor.initialize();
    }

    /** Waits a moment for pending events: the last ones report lost leaderships. */
    void stop() {
        executor.shutdown();
    }

    @Override
    public void accept(ClusterEvent event) {
        Map<String, String> origin = MDC.getCopyOfContextMap();
        try {
            executor.execute(() -> publish(event, origin));
        } catch (RuntimeException | Error e) {
            // No thread accepts the event; its cause must not fail because of that.
            log.warn("Could not publish event {}", event, ErrorText.loggable(e));
        }
    }

    private void publish(Object event, @Nullable Map<String, String> origin) {
        try {
            if (origin != null) {
                MDC.setContextMap(origin);
            }
            publisher.publishEvent(event);
        } catch (RuntimeException e) {
            log.warn("A listener failed on event {}", event, ErrorText.loggable(e));
        } finally {
            // Removes entries of listeners, too: they do not belong to the next event.
            MDC.clear();
        }
    }
}

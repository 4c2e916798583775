package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.internal.engine.ErrorText;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/**
 * Hands the cluster's events to the application, in order and on a thread of their own: a listener that takes its time
 * must not keep a leader from renewing its lease.
 */
final class EventThread implements Consumer<Object> {

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

    /** Waits a little for events that are under way: the last ones say what was lost. */
    void stop() {
        executor.shutdown();
    }

    @Override
    public void accept(Object event) {
        Map<String, String> origin = MDC.getCopyOfContextMap();
        try {
            executor.execute(() -> publish(event, origin));
        } catch (RuntimeException | Error e) {
            // No thread for it, or none any more: whoever has caused the event goes on.
            log.warn("event {}: could not be published", event, ErrorText.loggable(e));
        }
    }

    private void publish(Object event, @Nullable Map<String, String> origin) {
        try {
            if (origin != null) {
                MDC.setContextMap(origin);
            }
            publisher.publishEvent(event);
        } catch (RuntimeException e) {
            log.warn("a listener failed on {}", event, ErrorText.loggable(e));
        } finally {
            // Also what a listener has put there: the next event has nothing to do with it.
            MDC.clear();
        }
    }
}

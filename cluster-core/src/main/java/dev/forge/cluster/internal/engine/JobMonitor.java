package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.store.JobStore.Claimed;
import java.time.Duration;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What metrics and traces want to know of jobs. */
public interface JobMonitor {

    /** Nobody wants to know. */
    JobMonitor NONE = new JobMonitor() {};

    /** Runs a handler, perhaps within an observation. */
    default @Nullable Object observe(Claimed job, Attempt attempt) throws Throwable {
        return attempt.run();
    }

    /** What to attach to a new job, so that its execution can be linked with whoever enqueued it. */
    default Map<String, String> origin(String name) {
        return Map.of();
    }

    /** A handler's run. */
    @FunctionalInterface
    interface Attempt {

        @Nullable
        Object run() throws Throwable;
    }

    /** A job has begun, that long after it was due. */
    default void started(String name, Duration waited) {}

    /** A claim took that long. */
    default void claimed(Duration took) {}

    /** A failed attempt will be repeated. */
    default void retried(String name) {}

    /** What a handler did was dropped, because its job was no longer this node's. */
    default void claimLost(String name) {}

    /** A job was taken from a dead or silent node. */
    default void recovered(String name) {}
}

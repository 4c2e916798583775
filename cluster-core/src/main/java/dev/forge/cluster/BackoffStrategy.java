package dev.forge.cluster;

import java.time.Duration;

/** How long a job waits after a failed attempt. A bean of this type replaces {@code forge.cluster.job.backoff.*}. */
@FunctionalInterface
public interface BackoffStrategy {

    /**
     * The wait after that many failed attempts, the last of which ended with {@code failure}; without jitter, which is
     * added by the engine.
     */
    Duration delay(int failedAttempts, Throwable failure);
}

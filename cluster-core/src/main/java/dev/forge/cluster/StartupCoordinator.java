package dev.forge.cluster;

import java.time.Duration;

/**
 * Lets one node do for all what must be done once when they start. A bean of this type replaces the default, which keeps
 * its actions in {@code forge_locks}.
 */
public interface StartupCoordinator {

    /** Whether this node may do it now, with {@code forge.cluster.startup.lease-duration} as its time. */
    default boolean tryAcquire(String action) {
        return tryAcquire(action, Duration.ofMinutes(5));
    }

    /** Whether this node may do it now. Should it not finish within {@code ttl}, another may begin. */
    boolean tryAcquire(String action, Duration ttl);

    /** Says that it is done, or given up; another may begin. */
    void release(String action);
}

package dev.forge.cluster;

import java.time.Duration;
import java.util.Optional;

/**
 * Named locks across the cluster, kept in {@code forge_locks}. A lock is held for a time, by database time, and free
 * when that is over or its node is declared dead; what it protects should therefore check the lock's {@linkplain
 * ClusterLock#token() token}.
 *
 * <p>A name has at most 500 characters, none of them a control character.
 */
public interface ClusterLocks {

    /**
     * Takes a lock for {@code forge.cluster.lock.lease-duration} if it is free. Does not wait. Empty, too, if this node was
     * declared dead and has not joined anew.
     *
     * @throws IllegalArgumentException if the name cannot be stored, saying why
     * @throws ClusterNotReadyException if this node has not joined the cluster yet, or has left it
     */
    Optional<ClusterLock> tryLock(String name);

    /** Takes a lock for that long if it is free. Does not wait. */
    Optional<ClusterLock> tryLock(String name, Duration lease);
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.lock;

import dev.forge.cluster.ClusterNotReadyException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Named locks across the cluster, stored in {@code forge_locks}. A lock is leased by database time. It becomes free when the
 * lease ends or its node is declared dead, so a holder that was frozen can lose it without noticing. The protected resource
 * should therefore check the lock's {@linkplain ClusterLock#token() token}.
 *
 * <p>A lock is not reentrant and belongs to no thread. A name has at most 500 characters and no control characters, and does not
 * begin with {@code once:}. All methods throw {@link IllegalArgumentException} if the name is not allowed, and {@link
 * ClusterNotReadyException} if this node has not joined the cluster yet or has left it.
 */
public interface ClusterLocks {

    /**
     * Acquires a lock for {@code forge.cluster.lock.lease-duration} if it is free. Does not wait.
     *
     * @return the lock; empty if it is held, or if this node was declared dead and has not rejoined
     */
    Optional<ClusterLock> tryLock(String name);

    /** Acquires a lock for that lease if it is free. Does not wait. See {@link #tryLock(String)}. */
    Optional<ClusterLock> tryLock(String name, Duration lease);

    /**
     * Acquires a lock for {@code forge.cluster.lock.lease-duration} and waits until it is free. Waiting callers are not served
     * in order. Holds no database connection while it waits.
     *
     * @param timeout how long to wait at most
     * @throws LockNotAcquiredException if the lock was not free in time
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    ClusterLock lock(String name, Duration timeout) throws InterruptedException;

    /**
     * Runs {@code action} while this node holds the lock, and waits until the lock is free. The lease is renewed until the
     * action returns, however long it takes. A node that leaves the cluster waits for the action, at most for {@code
     * forge.cluster.shutdown.drain-timeout}.
     *
     * @param timeout how long to wait for the lock at most; zero does not wait
     * @return the result of the action
     * @throws LockNotAcquiredException if the lock was not free in time; the action did not run
     * @throws LockLostException if the lock was lost while the action ran, so that another node may have run at the same time
     * @throws org.springframework.transaction.IllegalTransactionStateException in a transaction: the lock would be released before
     *     the commit. Begin the transaction inside the action
     * @throws InterruptedException if the thread is interrupted while it waits for the lock
     */
    <T> T withLock(String name, Duration timeout, Supplier<T> action) throws InterruptedException;

    /** Runs an action without a result; see {@link #withLock(String, Duration, Supplier)}. */
    default void withLock(String name, Duration timeout, Runnable action) throws InterruptedException {
        withLock(name, timeout, () -> {
            action.run();
            return true;
        });
    }

    /**
     * Runs {@code action} if the lock is free, and does nothing otherwise. The lease is renewed until the action returns.
     *
     * @return whether the action ran
     * @throws LockLostException if the lock was lost while the action ran
     */
    boolean tryWithLock(String name, Runnable action);
}

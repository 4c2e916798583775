// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.Uninterrupted;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** Renews the leases of locks that are held while an action runs. One pass renews all of them. */
public final class LockKeeper implements NodeComponent {

    private static final Logger log = GuardedLogger.of(LockKeeper.class);

    private final LockStore locks;
    private final Duration lease;
    private final Set<Kept> kept = ConcurrentHashMap.newKeySet();
    private final NodeLoop loop;
    private final LongSupplier nanos;
    private final Object idle = new Object();

    public LockKeeper(LockStore locks, Duration lease, LongSupplier nanos) {
        this.locks = locks;
        this.lease = lease;
        this.nanos = nanos;
        this.loop = NodeLoop.upkeep("renew-locks", () -> lease.dividedBy(3), this::pass);
    }

    /** A lock whose lease is renewed until {@link #stop}. */
    static final class Kept {

        private final String name;
        private final long token;
        private volatile boolean lost;
        private volatile boolean stopping;

        Kept(String name, long token) {
            this.name = name;
            this.token = token;
        }
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(loop);
    }

    /** Returns the lease that locks get here. */
    Duration lease() {
        return lease;
    }

    /** Keeps a lock from now on. */
    Kept keep(String name, long token) {
        var lock = new Kept(name, token);
        kept.add(lock);
        return lock;
    }

    /**
     * Ends the renewal of a lock and releases it.
     *
     * @return whether this node held the lock without interruption until now
     */
    boolean stop(Kept lock) {
        lock.stopping = true;
        try {
            // An expired lease cannot be extended, so a lease that still runs has never been interrupted.
            return Uninterrupted.call(() -> locks.release(lock.name, lock.token));
        } finally {
            kept.remove(lock);
            synchronized (idle) {
                idle.notifyAll();
            }
        }
    }

    /** Releases a lock whose action has failed; the exception of the action matters more than one of the release. */
    void abandon(Kept lock) {
        try {
            stop(lock);
        } catch (DataAccessException | TransactionException e) {
            log.debug("Lock '{}': could not be released; its lease frees it", lock.name, e);
        }
    }

    @Override
    public boolean isBusy() {
        return !kept.isEmpty();
    }

    /** Waits for the actions under locks: when the node has left, other nodes get its locks. */
    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        long deadline = nanos.getAsLong() + patience.toNanos();
        synchronized (idle) {
            while (!kept.isEmpty()) {
                long left = TimeUnit.NANOSECONDS.toMillis(deadline - nanos.getAsLong());
                if (left <= 0) {
                    return false;
                }
                idle.wait(left);
            }
        }
        return true;
    }

    @Override
    public void release() {
        log.warn(
                "Locks are released although their actions still run: {}. Other nodes may take them now.",
                kept.stream().map(lock -> lock.name).sorted().limit(10).toList());
    }

    public void pass() {
        for (Kept lock : kept) {
            try {
                if (lock.lost || lock.stopping || locks.extend(lock.name, lock.token, lease)) {
                    continue;
                }
                lock.lost = true;
                // Its action may have ended while this pass tried to renew it.
                if (!lock.stopping) {
                    log.warn(
                            "Lock '{}': lost while its action runs. Another node may hold it now; the caller gets a LockLostException.",
                            lock.name);
                }
            } catch (DataAccessException | TransactionException e) {
                // The next pass tries again. If the lease ends before, stop() reports it.
                log.debug("Lock '{}': could not renew its lease", lock.name, e);
            }
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A fair semaphore with a second, preferred queue. */
final class Permits {

    private final ReentrantLock lock = new ReentrantLock();
    private final Deque<Waiter> preferred = new ArrayDeque<>();
    private final Deque<Waiter> others = new ArrayDeque<>();
    private int free;

    private static final class Waiter {
        final Condition granted;
        boolean hasPermit;

        Waiter(Condition granted) {
            this.granted = granted;
        }
    }

    Permits(int permits) {
        this.free = permits;
    }

    /** Acquires a permit after all callers that came before; returns false after that time. */
    boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(others, unit.toNanos(time));
    }

    /** Acquires a permit before all callers of {@link #tryAcquire}; returns false after that time. */
    boolean tryAcquireFirst(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(preferred, unit.toNanos(time));
    }

    private boolean tryAcquire(Deque<Waiter> queue, long patience) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            if (free > 0) {
                free--;
                return true;
            }
            var waiter = new Waiter(lock.newCondition());
            queue.add(waiter);
            try {
                long nanos = patience;
                while (!waiter.hasPermit && nanos > 0) {
                    nanos = waiter.granted.awaitNanos(nanos);
                }
                return waiter.hasPermit;
            } catch (InterruptedException e) {
                if (waiter.hasPermit) {
                    release();
                }
                throw e;
            } finally {
                queue.remove(waiter);
            }
        } finally {
            lock.unlock();
        }
    }

    void release() {
        lock.lock();
        try {
            Waiter next = preferred.isEmpty() ? others.poll() : preferred.poll();
            if (next == null) {
                free++;
            } else {
                next.hasPermit = true;
                next.granted.signal();
            }
        } finally {
            lock.unlock();
        }
    }
}

package dev.forge.cluster.internal.store;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A fair semaphore with a second queue: those who wait in it go before all others. */
final class Permits {

    private final ReentrantLock lock = new ReentrantLock();
    private final Deque<Waiter> first = new ArrayDeque<>();
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

    /** Acquires a permit when those who came before have theirs; false after that time. */
    boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(others, unit.toNanos(time));
    }

    /** Acquires the next permit that is released; false after that time. */
    boolean tryAcquireFirst(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(first, unit.toNanos(time));
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
            Waiter next = first.isEmpty() ? others.poll() : first.poll();
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

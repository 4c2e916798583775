// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** A lock around the state of an object. Unlike a monitor it does not pin a virtual thread that waits for it. */
public final class Guard {

    private final ReentrantLock lock = new ReentrantLock();

    public void run(Runnable action) {
        lock.lock();
        try {
            action.run();
        } finally {
            lock.unlock();
        }
    }

    public <T extends @Nullable Object> T call(Supplier<T> action) {
        lock.lock();
        try {
            return action.get();
        } finally {
            lock.unlock();
        }
    }

    /** An action that waits for a condition. */
    @FunctionalInterface
    public interface Wait {
        boolean run() throws InterruptedException;
    }

    public boolean await(Wait wait) throws InterruptedException {
        lock.lock();
        try {
            return wait.run();
        } finally {
            lock.unlock();
        }
    }

    public Condition newCondition() {
        return lock.newCondition();
    }
}

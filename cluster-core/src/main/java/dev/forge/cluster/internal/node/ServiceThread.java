// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A daemon thread that belongs to a service of the node. After {@link #release} the service may start another thread although
 * the former one has not ended yet; the former one finds out with {@link #isCurrent} that it must end.
 */
public final class ServiceThread {

    private final String name;
    private final Runnable body;
    private volatile @Nullable Thread thread;

    /** @param body runs until {@link #isCurrent} is false */
    public ServiceThread(String name, Runnable body) {
        this.name = name;
        this.body = body;
    }

    /** Starts a thread, unless there is one. Not to be called by two threads at once. */
    public void start() {
        if (thread == null) {
            var starting = new Thread(body, name);
            starting.setDaemon(true);
            thread = starting;
            starting.start();
        }
    }

    /** Returns whether a thread was started and not released. */
    public boolean isStarted() {
        return thread != null;
    }

    /** Returns whether the calling thread is the one that was started last, and was not released. */
    public boolean isCurrent() {
        return thread == Thread.currentThread();
    }

    /** Releases the thread, which is then no longer current; returns it, null if there is none. */
    public @Nullable Thread release() {
        Thread ending = thread;
        thread = null;
        return ending;
    }

    /** Waits for the end of a released thread. */
    public static void join(@Nullable Thread released, Duration patience) throws InterruptedException {
        if (released != null) {
            released.join(patience.toMillis());
        }
    }
}

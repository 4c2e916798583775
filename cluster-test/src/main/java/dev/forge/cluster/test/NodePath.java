// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** What stands between a node of a test and the rest of the world: its network path, its clock, and whether its threads may go on. */
public final class NodePath implements AutoCloseable {

    private final TestDatabase database;
    private final TcpProxy proxy;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition resumed = lock.newCondition();
    private boolean frozen;
    private volatile Duration skew = Duration.ZERO;

    /** Creates a path of its own to a database. */
    public NodePath(TestDatabase database) {
        this.database = database;
        this.proxy = TcpProxy.to(database.host(), database.port());
    }

    /** Returns the URL of the database through this path. */
    public String url() {
        return database.urlAt("localhost", proxy.port());
    }

    TcpProxy network() {
        return proxy;
    }

    /** Returns a task that waits as long as the node is frozen. */
    public Runnable gated(Runnable task) {
        return () -> {
            awaitResumed();
            task.run();
        };
    }

    private void awaitResumed() {
        lock.lock();
        try {
            while (frozen) {
                resumed.awaitUninterruptibly();
            }
        } finally {
            lock.unlock();
        }
    }

    void freeze(boolean whether) {
        lock.lock();
        try {
            frozen = whether;
            resumed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    void skew(Duration duration) {
        skew = duration;
    }

    /** Removes all faults. */
    void heal() {
        skew = Duration.ZERO;
        freeze(false);
        proxy.delay(Duration.ZERO);
        proxy.refuse(false);
        proxy.heal();
    }

    /** Returns a clock that is wrong by what the test says. */
    public Clock skewed(Clock clock) {
        return new SkewedClock(clock);
    }

    @Override
    public void close() {
        freeze(false);
        proxy.close();
    }

    private final class SkewedClock extends Clock {

        private final Clock right;

        SkewedClock(Clock right) {
            this.right = right;
        }

        @Override
        public Instant instant() {
            return right.instant().plus(skew);
        }

        @Override
        public ZoneId getZone() {
            return right.getZone();
        }

        @Override
        public Clock withZone(ZoneId zone) {
            return new SkewedClock(right.withZone(zone));
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SessionConnection;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.leader.ElectionStore;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.FailureLog;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Owns the session connection and the thread that serves it: opens the connection, takes the elector's steps on it, receives
 * notifications, and opens it again whenever it is lost.
 */
final class NodeSession {

    /** The notification that a leadership has changed. */
    static final String LEADERSHIP_CHANGED = "leadership";

    private static final Logger log = GuardedLogger.of(NodeSession.class);
    private static final Duration READ = Duration.ofMillis(50);
    /** By the session's last statement other nodes tell a node that has crashed from one that was cut off. */
    private static final Duration LONGEST_IDLE = Duration.ofSeconds(2);

    private static final Duration FIRST_RETRY = Duration.ofMillis(50);
    private static final Duration LAST_RETRY = Duration.ofSeconds(1);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private final DataSource direct;
    private final Schema schema;
    private final Elector elector;
    private final LongSupplier nanos;
    private final Listener listener;
    private final ServiceThread thread = new ServiceThread("forge-cluster-session", this::run);

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private volatile @Nullable UUID node;
    private volatile boolean stopping;
    private volatile boolean connected;
    private volatile int livenessKey;
    private volatile long lostAt;

    /** Receives changes of the session, on its thread. */
    interface Listener {

        /** Called before the connection is opened; lines that the thread logs from here on belong to that node. */
        void opening(UUID node);

        /** Called when the session was lost and is opened again. */
        void lost();

        /** Called with each notification that is not about leadership. */
        void heard(String notification);

        /** Returns whether the node leaves the cluster, so that a lost session has no consequences. */
        boolean isLeaving();
    }

    NodeSession(DataSource direct, Schema schema, Elector elector, LongSupplier nanos, Listener listener) {
        this.nanos = nanos;
        this.direct = direct;
        this.schema = schema;
        this.elector = elector;
        this.listener = listener;
    }

    /** Begins the session of a node; returns when it holds its liveness lock, or false after that time. */
    boolean begin(UUID id, Duration patience) throws InterruptedException {
        lock.lock();
        try {
            node = id;
            connected = false;
            lostAt = nanos.getAsLong();
            changed.signalAll();
            if (!thread.isStarted()) {
                stopping = false;
                thread.start();
            }
            long remaining = patience.toNanos();
            while (!connected && remaining > 0) {
                remaining = changed.awaitNanos(remaining);
            }
            return connected;
        } finally {
            lock.unlock();
        }
    }

    /** Resigns from every role and ends the session. */
    void stop() throws InterruptedException {
        Thread ending;
        lock.lock();
        try {
            stopping = true;
            changed.signalAll();
            ending = thread.release();
        } finally {
            lock.unlock();
        }
        ServiceThread.join(ending, STOP_PATIENCE);
    }

    boolean isConnected() {
        return connected;
    }

    /** Returns the key of the liveness lock that the latest session holds. */
    int livenessKey() {
        return livenessKey;
    }

    /** Returns whether the session should be connected but has not been for that long. */
    boolean isMissing(Duration patience) {
        return node != null && thread.isStarted() && !connected && nanos.getAsLong() - lostAt > patience.toNanos();
    }

    // The fields and methods below belong to the session's thread.
    private Duration retry = FIRST_RETRY;
    private FailureLog failures = new FailureLog(log, "Session");

    private void run() {
        retry = FIRST_RETRY;
        failures = new FailureLog(log, "Session");
        while (isCurrent()) {
            UUID current = node;
            if (current == null) {
                return;
            }
            callListener(() -> listener.opening(current));
            try (SessionConnection connection = SessionConnection.open(direct, schema, current)) {
                serve(connection, current);
            } catch (RuntimeException | Error e) {
                // Errors, too: without this thread the node would be dead and not know it.
                callListener(() -> report(e));
            } finally {
                if (connected) {
                    lostAt = nanos.getAsLong();
                }
                connected = false;
                callListener(elector::sessionLost);
            }
            if (isCurrent() && current.equals(node)) {
                callListener(listener::lost);
                pause(retry, current);
                retry = retry.multipliedBy(2).compareTo(LAST_RETRY) < 0 ? retry.multipliedBy(2) : LAST_RETRY;
            }
        }
    }

    // A thread that did not end in time must not continue beside its successor.
    private boolean isCurrent() {
        return !stopping && thread.isCurrent();
    }

    /** Survives a listener that throws: the node would have no session any more. */
    private static void callListener(Runnable call) {
        try {
            call.run();
        } catch (RuntimeException | Error e) {
            log.warn("Session: a listener failed", ErrorText.loggable(e));
        }
    }

    private void report(Throwable failure) {
        if (DatabaseFailure.kind(failure).isOfServer() && listener.isLeaving()) {
            log.debug("Session: lost while the node leaves", failure);
        } else {
            failures.failed("lost; leaderships end, reconnecting", failure);
        }
    }

    private void serve(SessionConnection connection, UUID current) {
        livenessKey = connection.livenessKey();
        new NodeStore(schema, connection.source()).renewLiveness(current, livenessKey);
        var store = new ElectionStore(schema, connection.source());
        var notifications = new Notifications(connection::notifyOthers);
        Runnable notifyOthers = () -> notifications.send(LEADERSHIP_CHANGED);
        elector.sessionBegun();
        announce(current);
        boolean served = false;
        long pinged = nanos.getAsLong();
        while (isCurrent() && current.equals(node)) {
            if (nanos.getAsLong() - pinged >= LONGEST_IDLE.toNanos()) {
                store.ping();
                pinged = nanos.getAsLong();
            }
            Duration due = elector.step(store, notifyOthers, current);
            if (!served) {
                // An open connection proves little: a read-only server accepts connections.
                served = true;
                retry = FIRST_RETRY;
                failures.succeeded();
            }
            for (String text : connection.notifications(due.compareTo(READ) < 0 ? due : READ)) {
                if (text.equals(LEADERSHIP_CHANGED)) {
                    elector.wake();
                } else {
                    receive(text);
                }
            }
        }
        try {
            elector.resign(store, notifyOthers, current);
        } catch (DataAccessException e) {
            log.debug("Session: could not resign; the end of the session frees its locks", e);
        }
    }

    // Any role that knows the channel may send any text.
    private void receive(String text) {
        try {
            listener.heard(text);
        } catch (RuntimeException e) {
            log.debug("Session: ignored the notification '{}'", text, e);
        }
    }

    private void announce(UUID current) {
        lock.lock();
        try {
            connected = current.equals(node);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void pause(Duration retry, UUID current) {
        lock.lock();
        try {
            long remaining = retry.toNanos();
            while (isCurrent() && current.equals(node) && remaining > 0) {
                remaining = changed.awaitNanos(remaining);
            }
        } catch (InterruptedException e) {
            stopping = true;
        } finally {
            lock.unlock();
        }
    }
}

package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.LeaderStore;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.Schema;
import dev.forge.cluster.internal.store.ServerFailure;
import dev.forge.cluster.internal.store.SessionConnection;
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
 * The thread that owns the session connection. It opens it, lets the elector take its steps on it, hears notifications,
 * and opens it anew whenever it is lost.
 */
final class Session {

    /** What others said that concerns leadership. */
    static final String LEADERSHIP_CHANGED = "leadership";

    private static final Logger log = GuardedLogger.of(Session.class);
    private static final Duration READ = Duration.ofMillis(50);
    /** By its session's last statement others tell a node that has crashed from one that was cut off. */
    private static final Duration LONGEST_UNUSED = Duration.ofSeconds(2);

    private static final Duration FIRST_RETRY = Duration.ofMillis(50);
    private static final Duration LAST_RETRY = Duration.ofSeconds(1);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private final DataSource direct;
    private final Schema schema;
    private final Elector elector;
    private final LongSupplier nanos;
    private final Listener listener;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private volatile @Nullable UUID node;
    private volatile boolean stopping;
    private volatile boolean connected;
    private volatile int livenessKey;
    private volatile long lostAt;
    private volatile @Nullable Thread thread;

    /** Who wants to know how the session fares. Called on its thread. */
    interface Listener {

        /** About to open the connection: whatever is logged from here on is that node's. */
        void opening(UUID node);

        void lost();

        void heard(String news);

        /** Whether the node leaves the cluster, so that a lost session has no consequences of its own. */
        boolean isLeaving();
    }

    Session(DataSource direct, Schema schema, Elector elector, LongSupplier nanos, Listener listener) {
        this.nanos = nanos;
        this.direct = direct;
        this.schema = schema;
        this.elector = elector;
        this.listener = listener;
    }

    /** Begins the session of that node; returns when it holds its liveness lock, or false after that time. */
    boolean begin(UUID id, Duration patience) throws InterruptedException {
        lock.lock();
        try {
            node = id;
            connected = false;
            lostAt = nanos.getAsLong();
            changed.signalAll();
            if (thread == null) {
                stopping = false;
                thread = new Thread(this::run, "forge-cluster-session");
                thread.setDaemon(true);
                thread.start();
            }
            long nanos = patience.toNanos();
            while (!connected && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
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
            ending = thread;
            thread = null;
        } finally {
            lock.unlock();
        }
        if (ending != null) {
            ending.join(STOP_PATIENCE.toMillis());
        }
    }

    boolean isConnected() {
        return connected;
    }

    /** The key of the lock that the latest session has taken. */
    int livenessKey() {
        return livenessKey;
    }

    /** Whatever the others make of what happens to the session: without this thread the node would have none any more. */
    private static void tell(Runnable listener) {
        try {
            listener.run();
        } catch (RuntimeException | Error e) {
            log.warn("session: a listener failed", ErrorText.loggable(e));
        }
    }

    private void report(Throwable failure) {
        if (!ServerFailure.caused(failure)) {
            log.warn("session: lost; leaderships end, reconnecting", ErrorText.loggable(failure));
        } else if (listener.isLeaving()) {
            log.debug("session: lost while the node leaves", failure);
        } else {
            log.warn("session: lost; leaderships end, reconnecting: {}", ServerFailure.brief(failure));
        }
    }

    /** Whether it should be connected but has not been for that long. */
    boolean isMissing(Duration patience) {
        return node != null && thread != null && !connected && nanos.getAsLong() - lostAt > patience.toNanos();
    }

    // Of the session's thread alone.
    private Duration retry = FIRST_RETRY;
    private boolean reported;

    private void run() {
        retry = FIRST_RETRY;
        reported = false;
        while (isCurrent()) {
            UUID current = node;
            if (current == null) {
                return;
            }
            tell(() -> listener.opening(current));
            try (SessionConnection connection = SessionConnection.open(direct, schema, current)) {
                serve(connection, current);
            } catch (RuntimeException | Error e) {
                // An Error too: without this thread the node would be dead and not know it.
                if (!reported) {
                    reported = true;
                    tell(() -> report(e));
                }
            } finally {
                if (connected) {
                    lostAt = nanos.getAsLong();
                }
                connected = false;
                tell(elector::sessionLost);
            }
            if (isCurrent() && current.equals(node)) {
                tell(listener::lost);
                pause(retry, current);
                retry = retry.multipliedBy(2).compareTo(LAST_RETRY) < 0 ? retry.multipliedBy(2) : LAST_RETRY;
            }
        }
    }

    // A thread that did not end in time must not go on beside its successor.
    private boolean isCurrent() {
        return !stopping && thread == Thread.currentThread();
    }

    private void serve(SessionConnection connection, UUID current) {
        livenessKey = connection.livenessKey();
        new NodeStore(schema, connection.source()).renewLiveness(current, livenessKey);
        var store = new LeaderStore(schema, connection.source());
        var notifications = new Notifications(connection::notifyOthers);
        Runnable tell = () -> notifications.send(LEADERSHIP_CHANGED);
        elector.sessionBegun();
        announce(current);
        boolean served = false;
        long pinged = nanos.getAsLong();
        while (isCurrent() && current.equals(node)) {
            if (nanos.getAsLong() - pinged >= LONGEST_UNUSED.toNanos()) {
                store.ping();
                pinged = nanos.getAsLong();
            }
            Duration due = elector.step(store, tell, current);
            if (!served) {
                served = true;
                served();
            }
            for (String text : connection.notifications(due.compareTo(READ) < 0 ? due : READ)) {
                if (text.equals(LEADERSHIP_CHANGED)) {
                    elector.wake();
                } else {
                    hear(text);
                }
            }
        }
        try {
            elector.resign(store, tell, current);
        } catch (DataAccessException e) {
            log.debug("session: could not resign; its end does it", e);
        }
    }

    /** The session is of use, not merely open: a read-only server lets everybody connect. */
    private void served() {
        if (reported) {
            log.info("session: connected again");
        }
        retry = FIRST_RETRY;
        reported = false;
    }

    // Whatever somebody sends on our channel, the session outlives it.
    private void hear(String text) {
        try {
            listener.heard(text);
        } catch (RuntimeException e) {
            log.debug("session: cannot make sense of '{}'", text, e);
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
            long nanos = retry.toNanos();
            while (isCurrent() && current.equals(node) && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
        } catch (InterruptedException e) {
            stopping = true;
        } finally {
            lock.unlock();
        }
    }
}

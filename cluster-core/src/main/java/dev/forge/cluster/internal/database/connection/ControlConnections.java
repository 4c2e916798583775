// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.jdbc.datasource.AbstractDataSource;

/**
 * A pool of a few connections for the cluster's own statements. It is separate from the application's pool, because handlers
 * that hold every connection of that pool must not make their node look dead.
 *
 * <p>The number of connections is fixed. They are opened when first needed, or {@linkplain #warm() ahead of it}, and kept open. A
 * connection is replaced at the next use if the driver has closed it after an error, if {@link #replace(DataSource)} was called,
 * if it has turned out to be read-only, or if it was open for half an hour: a session keeps defaults, and a server, that new
 * sessions no longer get.
 */
public final class ControlConnections extends AbstractDataSource implements AutoCloseable {

    private static final Logger log = GuardedLogger.of(ControlConnections.class);
    private static final Duration READ_TIMEOUT = Duration.ofSeconds(5);
    /** How long a connection is used. Each one is used up to a fifth shorter, so that they are not all replaced together. */
    private static final Duration LONGEST_USE = Duration.ofMinutes(30);
    /** A connection younger than this is not replaced: a new one would not be better. */
    private static final Duration YOUNG = Duration.ofSeconds(1);

    private final DataSource direct;
    private final Pooler pooler;
    private final Duration patience;
    private final int size;
    private final Permits permits;
    private final Semaphore sharedPermits;
    private final Semaphore reportPermit = new Semaphore(1, true);
    private final Deque<PhysicalConnection> idle = new ArrayDeque<>();
    private final LongSupplier nanos;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private volatile long replacedBefore;
    private boolean closed;

    /**
     * @param direct opens a new connection each time
     * @param pooler the pooler behind {@code direct}
     * @param size the largest number of connections
     * @param patience how long a caller waits for a connection
     */
    public ControlConnections(DataSource direct, Pooler pooler, int size, Duration patience) {
        this(direct, pooler, size, patience, System::nanoTime);
    }

    /** @param nanos the monotonic clock by which connections age */
    ControlConnections(DataSource direct, Pooler pooler, int size, Duration patience, LongSupplier nanos) {
        this.nanos = nanos;
        this.replacedBefore = nanos.getAsLong();
        this.direct = direct;
        this.pooler = pooler;
        this.patience = patience;
        this.size = size;
        this.permits = new Permits(size);
        this.sharedPermits = new Semaphore(Math.max(1, size - 1), true);
    }

    /** Returns a separate pool of connections to the same server. */
    public ControlConnections apart(int size) {
        return new ControlConnections(direct, pooler, size, patience, nanos);
    }

    /**
     * Replaces the connections of a source at their next use, if they are the cluster's own: a statement has failed on them that
     * might succeed on new ones.
     */
    public static void replace(DataSource source) {
        DataSource all = all(source);
        if (all instanceof ControlConnections dedicated) {
            dedicated.replacedBefore = dedicated.nanos.getAsLong();
        }
    }

    private static DataSource all(DataSource source) {
        return source instanceof Shared shared ? shared.all() : source instanceof Urgent urgent ? urgent.all() : source;
    }

    /** Returns whether every transaction on a source is READ COMMITTED by default. */
    public static boolean areReadCommitted(DataSource source) {
        DataSource all = all(source);
        return all instanceof ControlConnections dedicated && dedicated.pooler != Pooler.TRANSACTION;
    }

    /**
     * Returns a view of these connections for callers of the API, who never get all of them at once, so that heartbeats do not
     * wait for them.
     */
    public DataSource shared() {
        return new Shared(null);
    }

    /**
     * Returns a view of these connections for reports to operators. They read one after another, so that others who {@linkplain
     * #shared() share} the connections, such as the renewal of locks, wait for one report at most, however many are requested.
     */
    public DataSource reports() {
        return new Shared(reportPermit);
    }

    /**
     * Returns a view of these connections for heartbeats, observation and elections. Its callers get the next connection that is
     * returned, before all other callers, and wait for it as long as any statement may take. While statements on jobs take
     * seconds, because an index is built on their table for example, heartbeats must continue.
     */
    public DataSource urgent() {
        return new Urgent();
    }

    /** Returns the {@linkplain #urgent() urgent} view of a source, if its connections are the cluster's own; otherwise the source. */
    public static DataSource urgent(DataSource source) {
        return all(source) instanceof ControlConnections dedicated ? dedicated.urgent() : source;
    }

    private final class Urgent extends AbstractDataSource {

        ControlConnections all() {
            return ControlConnections.this;
        }

        @Override
        public Connection getConnection() throws SQLException {
            return ControlConnections.this.getConnection(true, () -> {});
        }

        @Override
        public Connection getConnection(String username, String password) {
            return ControlConnections.this.getConnection(username, password);
        }
    }

    private final class Shared extends AbstractDataSource {

        private final @Nullable Semaphore gate;

        /** @param gate limits these callers further; null: it does not */
        Shared(@Nullable Semaphore gate) {
            this.gate = gate;
        }

        ControlConnections all() {
            return ControlConnections.this;
        }

        @Override
        public Connection getConnection() throws SQLException {
            if (gate == null) {
                return acquire(sharedPermits, returned -> ControlConnections.this.getConnection(false, returned));
            }
            return acquire(
                    gate,
                    left -> acquire(
                            sharedPermits,
                            returned -> ControlConnections.this.getConnection(false, () -> {
                                returned.run();
                                left.run();
                            })));
        }

        private Connection acquire(Semaphore semaphore, Lending lending) throws SQLException {
            requireInTime(semaphore::tryAcquire, patience);
            boolean lent = false;
            try {
                Connection connection = lending.lend(semaphore::release);
                lent = true;
                return connection;
            } finally {
                if (!lent) {
                    semaphore.release();
                }
            }
        }

        @Override
        public Connection getConnection(String username, String password) {
            return ControlConnections.this.getConnection(username, password);
        }
    }

    /** Opens all connections now, so that the first burst of work does not wait for them. */
    public void warm() {
        var opened = new ArrayList<Connection>();
        try {
            for (int i = 0; i < size; i++) {
                opened.add(getConnection());
            }
        } catch (SQLException e) {
            log.debug("Could not open all control connections ahead of their use", e);
        } finally {
            opened.forEach(ControlConnections::closeQuietly);
        }
    }

    @Override
    public Connection getConnection() throws SQLException {
        return getConnection(false, () -> {});
    }

    private Connection getConnection(boolean urgent, Runnable returned) throws SQLException {
        if (urgent) {
            requireInTime(permits::tryAcquireFirst, patience.plus(READ_TIMEOUT));
        } else {
            requireInTime(permits::tryAcquire, patience);
        }
        boolean lent = false;
        try {
            PhysicalConnection idle = pollIdle();
            Connection connection = LentConnection.lend(idle != null ? idle : open(), pooler, physical -> {
                takeBack(physical);
                returned.run();
            });
            lent = true;
            return connection;
        } finally {
            if (!lent) {
                permits.release();
            }
        }
    }

    @Override
    public Connection getConnection(String username, String password) {
        throw new UnsupportedOperationException("Control connections have one user");
    }

    /** Closes idle connections now and others when they are returned. Callers get none before {@link #reopen()}. */
    @Override
    public void close() {
        synchronized (idle) {
            closed = true;
            idle.forEach(physical -> closeQuietly(physical.connection()));
            idle.clear();
        }
    }

    /** Allows use again after {@link #close()}. */
    public void reopen() {
        synchronized (idle) {
            closed = false;
        }
    }

    private interface Lending {
        Connection lend(Runnable returned) throws SQLException;
    }

    private interface Acquisition {
        boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException;
    }

    private static void requireInTime(Acquisition permits, Duration patience) throws SQLException {
        try {
            if (!permits.tryAcquire(patience.toMillis(), TimeUnit.MILLISECONDS)) {
                throw new SQLTransientConnectionException("No control connection became free within " + patience);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SQLTransientConnectionException("Interrupted while waiting for a control connection", e);
        }
    }

    private PhysicalConnection open() throws SQLException {
        long now = nanos.getAsLong();
        long use = (long) (LONGEST_USE.toNanos() * (1 - 0.2 * random.nextDouble()));
        return new PhysicalConnection(DedicatedConnection.open(direct, pooler, READ_TIMEOUT), now, now + use);
    }

    private @Nullable PhysicalConnection pollIdle() throws SQLException {
        var outdated = new ArrayList<PhysicalConnection>();
        try {
            synchronized (idle) {
                if (closed) {
                    throw new SQLTransientConnectionException("Control connections are closed");
                }
                PhysicalConnection physical = idle.poll();
                while (physical != null && isOutdated(physical)) {
                    outdated.add(physical);
                    physical = idle.poll();
                }
                return physical;
            }
        } finally {
            outdated.forEach(physical -> closeQuietly(physical.connection()));
        }
    }

    private boolean isOutdated(PhysicalConnection physical) throws SQLException {
        long now = nanos.getAsLong();
        return physical.connection().isClosed()
                || now - physical.usedUntil() >= 0
                || ((physical.isReadOnly() || physical.openedAt() - replacedBefore < 0)
                        && now - physical.openedAt() >= YOUNG.toNanos());
    }

    private void takeBack(PhysicalConnection physical) {
        Connection connection = physical.connection();
        try {
            if (!connection.isClosed() && !connection.getAutoCommit()) {
                connection.rollback();
                connection.setAutoCommit(true);
            }
            synchronized (idle) {
                if (!closed && !isOutdated(physical)) {
                    idle.push(physical);
                    return;
                }
            }
            closeQuietly(connection);
        } catch (SQLException e) {
            // Its state is unknown, so it must not be lent again.
            closeQuietly(connection);
        } finally {
            permits.release();
        }
    }

    private static void closeQuietly(Connection connection) {
        try {
            connection.close();
        } catch (SQLException e) {
            // The connection is unusable; the server notices by itself.
        }
    }
}

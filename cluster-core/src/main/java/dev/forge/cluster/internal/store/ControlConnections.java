package dev.forge.cluster.internal.store;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.jdbc.datasource.AbstractDataSource;

/**
 * The few connections reserved for the cluster's own statements. Apart from the application's pool on purpose: handlers
 * that hold every connection of that pool must not make their node look dead.
 *
 * <p>Fixed in number, opened when first needed or {@linkplain #warm() ahead of it}, kept open. A connection the driver has closed after an error is replaced
 * at the next use. So is one that is {@linkplain #replace(DataSource) doubted}, that has turned out to be read-only, and that
 * was open for half an hour: a session keeps defaults, and a server, that new sessions may not get any more.
 */
public final class ControlConnections extends AbstractDataSource implements AutoCloseable {

    private static final Logger log = GuardedLogger.of(ControlConnections.class);
    private static final Duration READ_TIMEOUT = Duration.ofSeconds(5);
    /** How long a connection is used; each one up to a fifth shorter, so that they are not all replaced together. */
    private static final Duration LONGEST_USE = Duration.ofMinutes(30);
    /** A doubtful connection younger than this is as good as a new one: no need to open one for each statement. */
    private static final Duration YOUNG = Duration.ofSeconds(1);
    /**
     * Behind a transaction pooler the driver cancels statements after that time. No setting of the session ends them there,
     * and the server does not notice that our side of the pooler has closed: they would wait for locks for ever, one more
     * session each time. Shorter than the read timeout, whose end closes the connection.
     */
    private static final int POOLED_STATEMENT_SECONDS = 4;

    private final DataSource direct;
    private final Pooler pooler;
    private final Duration patience;
    private final int size;
    private final Permits permits;
    private final Semaphore sharedPermits;
    private final Deque<Physical> idle = new ArrayDeque<>();
    private final LongSupplier nanos;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private volatile long doubtedAt;
    private boolean closed;

    /** A connection with what decides whether it is lent again. */
    private static final class Physical {
        final Connection connection;
        final long openedAt;
        final long usedUntil;
        volatile boolean readOnly;

        Physical(Connection connection, long openedAt, long usedUntil) {
            this.connection = connection;
            this.openedAt = openedAt;
            this.usedUntil = usedUntil;
        }
    }

    /**
     * @param direct opens a new connection each time
     * @param pooler what is in between
     * @param size how many at most
     * @param patience how long a caller waits for one to come back
     */
    public ControlConnections(DataSource direct, Pooler pooler, int size, Duration patience) {
        this(direct, pooler, size, patience, System::nanoTime);
    }

    /** @param nanos the monotonic clock by which connections age */
    ControlConnections(DataSource direct, Pooler pooler, int size, Duration patience, LongSupplier nanos) {
        this.nanos = nanos;
        this.doubtedAt = nanos.getAsLong();
        this.direct = direct;
        this.pooler = pooler;
        this.patience = patience;
        this.size = size;
        this.permits = new Permits(size);
        this.sharedPermits = new Semaphore(Math.max(1, size - 1), true);
    }

    /** Others to the same server, so many of them, that are lent and closed apart from these. */
    public ControlConnections apart(int size) {
        return new ControlConnections(direct, pooler, size, patience, nanos);
    }

    /**
     * Replaces the connections of that source, if they are the cluster's own, as they come back: something has failed on
     * them that might succeed on others.
     */
    public static void replace(DataSource source) {
        DataSource all = all(source);
        if (all instanceof ControlConnections dedicated) {
            dedicated.doubtedAt = dedicated.nanos.getAsLong();
        }
    }

    private static DataSource all(DataSource source) {
        return source instanceof Shared shared ? shared.all() : source instanceof Urgent urgent ? urgent.all() : source;
    }

    /** Whether every transaction on that source is READ COMMITTED without its saying so. */
    static boolean areReadCommitted(DataSource source) {
        DataSource all = all(source);
        return all instanceof ControlConnections dedicated && dedicated.pooler != Pooler.TRANSACTION;
    }

    /**
     * The same connections for callers of the API: they never have all of them at once, so that a heartbeat need not
     * wait behind them.
     */
    public DataSource shared() {
        return new Shared();
    }

    /**
     * The same connections for what decides whether this node lives and leads: it gets the next one that comes back, before
     * everybody else who waits, and waits for it as long as any statement may take. While statements on jobs take seconds, say
     * because somebody builds an index on their table, the node must go on beating.
     */
    public DataSource urgent() {
        return new Urgent();
    }

    /** The {@linkplain #urgent() urgent} view of that source, if its connections are the cluster's own; otherwise the source. */
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

        ControlConnections all() {
            return ControlConnections.this;
        }

        @Override
        public Connection getConnection() throws SQLException {
            requireInTime(sharedPermits::tryAcquire, patience);
            boolean lent = false;
            try {
                Connection connection = ControlConnections.this.getConnection(false, sharedPermits::release);
                lent = true;
                return connection;
            } finally {
                if (!lent) {
                    sharedPermits.release();
                }
            }
        }

        @Override
        public Connection getConnection(String username, String password) {
            return ControlConnections.this.getConnection(username, password);
        }
    }

    /** Opens all of them now, so that the first burst of work need not. */
    public void warm() {
        var opened = new ArrayList<Connection>();
        try {
            for (int i = 0; i < size; i++) {
                opened.add(getConnection());
            }
        } catch (SQLException e) {
            log.debug("could not open every control connection ahead of its use", e);
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
            Physical physical = idle();
            Connection connection = lend(physical != null ? physical : open(), returned);
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
        throw new UnsupportedOperationException("control connections have one user");
    }

    /** Closes what is idle now and the rest as it comes back; nobody gets one before {@link #reopen()}. */
    @Override
    public void close() {
        synchronized (idle) {
            closed = true;
            idle.forEach(physical -> closeQuietly(physical.connection));
            idle.clear();
        }
    }

    /** Accepts use again after {@link #close()}. */
    public void reopen() {
        synchronized (idle) {
            closed = false;
        }
    }

    private interface Acquisition {
        boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException;
    }

    private static void requireInTime(Acquisition permits, Duration patience) throws SQLException {
        try {
            if (!permits.tryAcquire(patience.toMillis(), TimeUnit.MILLISECONDS)) {
                throw new SQLTransientConnectionException("no control connection came free within " + patience);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SQLTransientConnectionException("interrupted while waiting for a control connection", e);
        }
    }

    private Physical open() throws SQLException {
        long now = nanos.getAsLong();
        long use = (long) (LONGEST_USE.toNanos() * (1 - 0.2 * random.nextDouble()));
        return new Physical(Dedicated.open(direct, pooler, READ_TIMEOUT), now, now + use);
    }

    private @Nullable Physical idle() throws SQLException {
        var outdated = new ArrayList<Physical>();
        try {
            synchronized (idle) {
                if (closed) {
                    throw new SQLTransientConnectionException("control connections are closed");
                }
                Physical physical = idle.poll();
                while (physical != null && isOutdated(physical)) {
                    outdated.add(physical);
                    physical = idle.poll();
                }
                return physical;
            }
        } finally {
            outdated.forEach(physical -> closeQuietly(physical.connection));
        }
    }

    private boolean isOutdated(Physical physical) throws SQLException {
        long now = nanos.getAsLong();
        return physical.connection.isClosed()
                || now - physical.usedUntil >= 0
                || ((physical.readOnly || physical.openedAt - doubtedAt < 0)
                        && now - physical.openedAt >= YOUNG.toNanos());
    }

    private Connection lend(Physical physical, Runnable afterwards) {
        var returned = new AtomicBoolean();
        return (Connection) Proxy.newProxyInstance(
                ControlConnections.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "close" -> {
                        if (returned.compareAndSet(false, true)) {
                            takeBack(physical);
                            afterwards.run();
                        }
                        yield null;
                    }
                    case "isClosed" -> returned.get() || physical.connection.isClosed();
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        if (returned.get()) {
                            throw new SQLException("this control connection was given back");
                        }
                        Object result = invoke(physical.connection, method, arguments);
                        yield result instanceof Statement statement
                                ? watched(limited(statement), method.getReturnType(), physical)
                                : result;
                    }
                });
    }

    private Statement limited(Statement statement) throws SQLException {
        if (pooler == Pooler.TRANSACTION) {
            statement.setQueryTimeout(POOLED_STATEMENT_SECONDS);
        }
        return statement;
    }

    /** The statement, through which every failure of a session that turns out to be read-only passes. */
    private static Object watched(Statement statement, Class<?> type, Physical physical) {
        Class<?> shown = type == CallableStatement.class || type == PreparedStatement.class ? type : Statement.class;
        return Proxy.newProxyInstance(
                ControlConnections.class.getClassLoader(),
                new Class<?>[] {shown},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        try {
                            yield invoke(statement, method, arguments);
                        } catch (SQLException e) {
                            if (ServerFailure.isReadOnly(e)) {
                                physical.readOnly = true;
                            }
                            throw e;
                        }
                    }
                });
    }

    private static @Nullable Object invoke(Object target, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getTargetException();
        }
    }

    private void takeBack(Physical physical) {
        Connection connection = physical.connection;
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
            // Its state is unknown: never lend it again.
            closeQuietly(connection);
        } finally {
            permits.release();
        }
    }

    private static void closeQuietly(Connection connection) {
        try {
            connection.close();
        } catch (SQLException e) {
            // It was given up already; the server notices by itself.
        }
    }
}

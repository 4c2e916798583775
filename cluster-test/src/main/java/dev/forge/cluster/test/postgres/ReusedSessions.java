// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.PGConnection;
import org.springframework.jdbc.datasource.AbstractDataSource;

/**
 * Keeps a few sessions for reuse, because starting a server process for every statement takes longer than the statements of
 * most tests. A returned session is reset ({@code DISCARD ALL}). The number of connections in use is not limited, so a test
 * never waits for one.
 */
final class ReusedSessions extends AbstractDataSource implements AutoCloseable {

    private static final int MAX_IDLE = 8;
    private static final int VALIDATION_SECONDS = 5;

    private final DataSource source;
    private final Deque<Connection> idle = new ArrayDeque<>();
    private int generation;
    private boolean closed;

    ReusedSessions(DataSource source) {
        this.source = source;
    }

    @Override
    public Connection getConnection() throws SQLException {
        // Must come first: a session that is taken while the others are being ended must not be kept later.
        int begun = generation();
        Connection kept = takeIdle();
        while (kept != null && !kept.isValid(VALIDATION_SECONDS)) {
            kept.close();
            kept = takeIdle();
        }
        return lend(kept != null ? kept : source.getConnection(), begun);
    }

    private synchronized int generation() {
        return generation;
    }

    @Override
    public Connection getConnection(String username, String password) throws SQLException {
        return source.getConnection(username, password);
    }

    private synchronized @Nullable Connection takeIdle() {
        return idle.pollLast();
    }

    private synchronized boolean keep(Connection session, int begun) {
        if (closed || begun != generation || idle.size() == MAX_IDLE) {
            return false;
        }
        idle.addLast(session);
        return true;
    }

    private Connection lend(Connection session, int begun) {
        var borrowed = new Object() {
            boolean returned;
        };
        return (Connection) Proxy.newProxyInstance(
                Connection.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "close" -> {
                        synchronized (borrowed) {
                            if (!borrowed.returned) {
                                borrowed.returned = true;
                                takeBack(session, begun);
                            }
                        }
                        yield null;
                    }
                    case "isClosed" -> borrowed.returned || session.isClosed();
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        if (borrowed.returned && method.getDeclaringClass() == Connection.class) {
                            throw new SQLException("This connection has been closed.", "08003");
                        }
                        yield invoke(session, method, arguments);
                    }
                });
    }

    private static @Nullable Object invoke(Connection session, Method method, Object @Nullable [] arguments)
            throws Throwable {
        try {
            return method.invoke(session, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private void takeBack(Connection session, int begun) throws SQLException {
        if (!reset(session) || !keep(session, begun)) {
            session.close();
        }
    }

    private static boolean reset(Connection session) {
        try {
            if (session.isClosed()) {
                return false;
            }
            if (!session.getAutoCommit()) {
                session.rollback();
                session.setAutoCommit(true);
            }
            session.setReadOnly(false);
            try (Statement statement = session.createStatement()) {
                statement.execute("DISCARD ALL");
            }
            return true;
        } catch (SQLException e) {
            // The session is lost or cannot be reset; it only needs to end.
            return false;
        }
    }

    /** Returns the server processes of the sessions that are kept for reuse. */
    synchronized Set<Integer> idleProcesses() {
        return idle.stream().map(ReusedSessions::process).collect(Collectors.toSet());
    }

    private static int process(Connection session) {
        try {
            return session.unwrap(PGConnection.class).getBackendPID();
        } catch (SQLException e) {
            throw new IllegalStateException("not a connection to PostgreSQL: " + session, e);
        }
    }

    /** Reuses none of the present sessions, so that new ones see changed defaults of the database or role. */
    void endIdle() {
        List<Connection> ending;
        synchronized (this) {
            generation++;
            ending = new ArrayList<>(idle);
            idle.clear();
        }
        for (Connection session : ending) {
            try {
                session.close();
            } catch (SQLException e) {
                logger.debug("could not close a session", e);
            }
        }
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
        }
        endIdle();
    }
}

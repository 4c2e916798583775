// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The connection that a caller of {@link ControlConnections} gets: closing it returns the physical one. Its statements tell when
 * the session is read-only, count as {@linkplain DatabaseAnswers answers} if they succeed, and behind a transaction pooler are READ
 * COMMITTED and end in time.
 */
final class LentConnection {

    /**
     * After how many seconds the driver cancels a statement behind a transaction pooler. No setting of the session ends it there,
     * and the server does not notice that the client of the pooler has closed its connection: statements would wait for locks
     * without limit, in one more session each time. Shorter than the read timeout, whose end closes the connection.
     */
    private static final int POOLED_STATEMENT_SECONDS = 4;

    private LentConnection() {}

    /** @param returned called once, when the caller closes the connection */
    static Connection lend(PhysicalConnection physical, Pooler pooler, Consumer<PhysicalConnection> returned) {
        var closed = new AtomicBoolean();
        return (Connection) Proxy.newProxyInstance(
                LentConnection.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "close" -> {
                        if (closed.compareAndSet(false, true)) {
                            returned.accept(physical);
                        }
                        yield null;
                    }
                    case "isClosed" -> closed.get() || physical.connection().isClosed();
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        if (closed.get()) {
                            throw new SQLException("This control connection was returned");
                        }
                        Object result = invoke(physical.connection(), method, arguments);
                        yield result instanceof Statement statement
                                ? watched(limited(statement, pooler), pooler, method.getReturnType(), physical)
                                : result;
                    }
                });
    }

    private static Statement limited(Statement statement, Pooler pooler) throws SQLException {
        if (pooler == Pooler.TRANSACTION) {
            statement.setQueryTimeout(POOLED_STATEMENT_SECONDS);
        }
        return statement;
    }

    /** Returns the statement as a proxy that records answers, and failures of a read-only session. */
    private static Object watched(Statement statement, Pooler pooler, Class<?> type, PhysicalConnection physical) {
        Class<?> shown = type == CallableStatement.class || type == PreparedStatement.class ? type : Statement.class;
        return Proxy.newProxyInstance(
                LentConnection.class.getClassLoader(),
                new Class<?>[] {shown},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        try {
                            if (!method.getName().startsWith("execute")) {
                                yield invoke(statement, method, arguments);
                            }
                            Object result = pooler == Pooler.TRANSACTION
                                    ? ReadCommittedStatements.execute(
                                            physical.connection(), () -> invoke(statement, method, arguments))
                                    : invoke(statement, method, arguments);
                            DatabaseAnswers.received();
                            yield result;
                        } catch (SQLException e) {
                            if (DatabaseFailure.kind(e) == Kind.READ_ONLY) {
                                physical.foundReadOnly();
                            }
                            throw e;
                        }
                    }
                });
    }

    static @Nullable Object invoke(Object target, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getTargetException();
        }
    }
}

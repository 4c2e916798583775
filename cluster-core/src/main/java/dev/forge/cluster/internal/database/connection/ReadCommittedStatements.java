// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import java.lang.reflect.Proxy;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.Statement;
import org.jspecify.annotations.Nullable;

/**
 * Executes each statement outside of a transaction in a READ COMMITTED transaction of its own, which costs two round trips more.
 * Another client of a pooler may have changed the default of the session: drivers set the level on the session, and the pooler
 * lends it to the next client.
 */
final class ReadCommittedStatements {

    private ReadCommittedStatements() {}

    /** The execution of a statement. */
    interface Execution {
        @Nullable
        Object run() throws Throwable;
    }

    /** Returns the connection with statements that are executed in this way. */
    static Connection on(Connection connection) {
        return (Connection) Proxy.newProxyInstance(
                ReadCommittedStatements.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> {
                        Object result = LentConnection.invoke(connection, method, arguments);
                        yield result instanceof Statement statement
                                ? on(connection, statement, method.getReturnType())
                                : result;
                    }
                });
    }

    private static Object on(Connection connection, Statement statement, Class<?> type) {
        Class<?> shown = type == CallableStatement.class || type == PreparedStatement.class ? type : Statement.class;
        return Proxy.newProxyInstance(
                ReadCommittedStatements.class.getClassLoader(),
                new Class<?>[] {shown},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default ->
                        method.getName().startsWith("execute")
                                ? execute(connection, () -> LentConnection.invoke(statement, method, arguments))
                                : LentConnection.invoke(statement, method, arguments);
                });
    }

    /** Executes a statement of a connection; in its open transaction if there is one. */
    static @Nullable Object execute(Connection connection, Execution execution) throws Throwable {
        if (!connection.getAutoCommit()) {
            return execution.run();
        }
        connection.setAutoCommit(false);
        try {
            try (Statement first = connection.createStatement()) {
                first.execute(DedicatedConnection.READ_COMMITTED);
            }
            Object result = execution.run();
            connection.commit();
            connection.setAutoCommit(true);
            return result;
        } catch (Throwable e) {
            if (!connection.isClosed()) {
                // Otherwise the next line would commit.
                connection.rollback();
                connection.setAutoCommit(true);
            }
            throw e;
        }
    }
}

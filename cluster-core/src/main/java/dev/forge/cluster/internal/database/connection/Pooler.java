// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import dev.forge.cluster.ClusterStartupException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.UUID;
import javax.sql.DataSource;
import org.postgresql.PGConnection;

/** The connection pooler between this node and the server. */
public enum Pooler {
    /** None: a connection is a session. */
    NONE,
    /** A pooler that assigns a session to a connection for as long as the connection lasts. */
    SESSION,
    /** A pooler that may assign another session to a connection after each transaction. */
    TRANSACTION;

    private static final int TRIES = 3;

    /** Finds out which pooler there is, with two connections. */
    public static Pooler detect(DataSource direct) {
        try {
            return probe(direct);
        } catch (SQLException e) {
            throw unreachable(e);
        }
    }

    /** Returns the exception that a start throws if it cannot connect. */
    public static ClusterStartupException unreachable(SQLException e) {
        return new ClusterStartupException(
                "Forge Cluster cannot connect to its database: " + e.getMessage(),
                "Check spring.datasource.url, username and password, and forge.cluster.direct-connection.* if set.",
                e);
    }

    private static Pooler probe(DataSource direct) throws SQLException {
        try (Connection a = direct.getConnection();
                Connection b = direct.getConnection()) {
            a.unwrap(PGConnection.class).setPrepareThreshold(0);
            b.unwrap(PGConnection.class).setPrepareThreshold(0);
            int announced = a.unwrap(PGConnection.class).getBackendPID();
            if (announced == Integer.parseInt(ask(a, "SELECT pg_backend_pid()"))) {
                return NONE;
            }
            for (int i = 0; i < TRIES; i++) {
                if (losesItsSession(a, b)) {
                    return TRANSACTION;
                }
            }
            return SESSION;
        }
    }

    /** A variable that was set on one connection is lost if the open transaction of another one can take over its session. */
    private static boolean losesItsSession(Connection a, Connection b) throws SQLException {
        String mark = UUID.randomUUID().toString();
        ask(a, "SELECT set_config('forge.probe', '%s', false)".formatted(mark));
        b.setAutoCommit(false);
        try {
            ask(b, "SELECT pg_backend_pid()");
            return !mark.equals(ask(a, "SELECT coalesce(current_setting('forge.probe', true), '')"));
        } finally {
            b.rollback();
            b.setAutoCommit(true);
            ask(a, "SELECT set_config('forge.probe', '', false)");
        }
    }

    private static String ask(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getString(1);
        }
    }
}

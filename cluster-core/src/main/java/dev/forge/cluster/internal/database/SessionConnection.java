// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.internal.database.connection.DedicatedConnection;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessResourceFailureException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * The connection of a node that holds its liveness lock and its leader locks, and receives notifications. It belongs to one
 * thread. Its statements must be short, and it is closed after any failure, so that the server frees its locks.
 */
public final class SessionConnection implements AutoCloseable {

    private static final Duration READ_TIMEOUT = Duration.ofSeconds(2);
    private static final String CONNECTION_DOES_NOT_EXIST = "08003";
    private static final Logger log = GuardedLogger.of(SessionConnection.class);

    private final Connection connection;
    private final DataSource source;
    private final JdbcClient jdbc;
    private final NotificationChannel notifications;
    private final int livenessKey;

    private SessionConnection(Schema schema, Connection connection) {
        this.connection = connection;
        this.source = new SingleConnectionDataSource(connection, true) {
            @Override
            public Connection getConnection() throws SQLException {
                if (connection.isClosed()) {
                    // The exception of Spring has no SQLSTATE, and would look like a fault of this code.
                    throw new SQLException("The session connection is closed", CONNECTION_DOES_NOT_EXIST);
                }
                return super.getConnection();
            }
        };
        this.jdbc = JdbcClient.create(source);
        this.notifications = new NotificationChannel(schema, source);
        this.livenessKey = schema.keys().liveness(UUID.randomUUID());
    }

    /** Opens the connection, listens, and takes a liveness lock. */
    public static SessionConnection open(DataSource direct, Schema schema, UUID node) {
        Connection connection;
        try {
            connection = DedicatedConnection.open(direct, Pooler.NONE, READ_TIMEOUT);
        } catch (SQLException e) {
            throw lost(e);
        }
        var session = new SessionConnection(schema, connection);
        try {
            try (Statement statement = connection.createStatement()) {
                // A session that waits for a lock would miss its renewals.
                statement.execute("SET lock_timeout = '200ms'");
                statement.execute("LISTEN " + Schema.quoted(schema.channel()));
            }
            session.takeLivenessLock(node);
            return session;
        } catch (SQLException e) {
            session.close();
            throw lost(e);
        } catch (RuntimeException e) {
            session.close();
            throw e;
        }
    }

    private static DataAccessResourceFailureException lost(SQLException e) {
        return new DataAccessResourceFailureException("Session connection: " + e.getMessage(), e);
    }

    // Each session has another key. No other session can wait in the queue of a lock whose key did not exist before,
    // and a former session that the server has not closed yet does not hold it.
    private void takeLivenessLock(UUID node) {
        boolean taken = jdbc.sql("SELECT pg_try_advisory_lock(?, ?)")
                .params(AdvisoryKeys.CLASS_ID, livenessKey)
                .query(Boolean.class)
                .single();
        if (!taken) {
            throw new IllegalStateException("Node %s: liveness lock %d is taken; the next session tries another one"
                    .formatted(node, livenessKey));
        }
    }

    /** Returns the key of the liveness lock that this session holds. */
    public int livenessKey() {
        return livenessKey;
    }

    /** Returns this connection as a data source, for stores that need this session. */
    public DataSource source() {
        return source;
    }

    /** Returns notifications that have arrived, or arrive within that time. Throws as soon as the server ends the session. */
    public List<String> notifications(Duration patience) {
        var texts = new ArrayList<String>();
        try {
            PGNotification[] arrived =
                    connection.unwrap(PGConnection.class).getNotifications((int) Math.max(1, patience.toMillis()));
            if (arrived != null) {
                for (PGNotification notification : arrived) {
                    texts.add(notification.getParameter());
                }
            }
        } catch (SQLException e) {
            throw lost(e);
        }
        return texts;
    }

    /** Notifies the other nodes. */
    public void notifyOthers(String text) {
        notifications.send(text);
    }

    /** Aborts the connection, because an orderly close could block on a network that was cut. */
    @Override
    public void close() {
        try {
            connection.abort(Runnable::run);
        } catch (SQLException e) {
            log.debug("Could not close the session connection", e);
        }
    }
}

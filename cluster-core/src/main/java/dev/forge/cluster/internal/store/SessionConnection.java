package dev.forge.cluster.internal.store;

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
 * The one connection of a node whose end means something: it holds the node's liveness lock and its leader locks, and
 * hears notifications. Owned by one thread. No statement on it may take long, and after any doubt it is closed: the
 * server then frees what it held.
 */
public final class SessionConnection implements AutoCloseable {

    private static final Duration READ_TIMEOUT = Duration.ofSeconds(2);
    private static final Logger log = GuardedLogger.of(SessionConnection.class);

    private final Schema schema;
    private final Connection connection;
    private final DataSource source;
    private final JdbcClient jdbc;
    private final int livenessKey;

    private SessionConnection(Schema schema, Connection connection) {
        this.schema = schema;
        this.connection = connection;
        this.source = new SingleConnectionDataSource(connection, true);
        this.jdbc = JdbcClient.create(source);
        this.livenessKey = schema.keys().liveness(UUID.randomUUID());
    }

    /** Opens the connection, listens, and takes a liveness lock. */
    public static SessionConnection open(DataSource direct, Schema schema, UUID node) {
        Connection connection;
        try {
            connection = Dedicated.open(direct, Pooler.NONE, READ_TIMEOUT);
        } catch (SQLException e) {
            throw lost(e);
        }
        var session = new SessionConnection(schema, connection);
        try {
            try (Statement statement = connection.createStatement()) {
                // The server's way to end a wait that we would not; a blocked session is a dead one.
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
        return new DataAccessResourceFailureException("session connection: " + e.getMessage(), e);
    }

    // Another key for each session. Nobody can wait in the queue of a lock whose key did not exist before, and a former
    // session that the server has not given up yet does not stand in the way.
    private void takeLivenessLock(UUID node) {
        boolean taken = jdbc.sql("SELECT pg_try_advisory_lock(?, ?)")
                .params(AdvisoryKeys.CLASS_ID, livenessKey)
                .query(Boolean.class)
                .single();
        if (!taken) {
            throw new IllegalStateException("node %s: liveness lock %d is taken; the next session tries another one"
                    .formatted(node, livenessKey));
        }
    }

    /** The key of the liveness lock that this session holds. */
    public int livenessKey() {
        return livenessKey;
    }

    /** The connection for stores that need this very session. */
    public DataSource source() {
        return source;
    }

    /** Notifications that have come, or come within that time. Throws as soon as the server ends the session. */
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

    /** Tells the other nodes. */
    public void notifyOthers(String text) {
        jdbc.sql("SELECT pg_notify(?, ?)")
                .params(schema.channel(), text)
                .query((row, n) -> true)
                .single();
    }

    /** Drops the connection without ceremony, which must not block on a network that was cut. */
    @Override
    public void close() {
        try {
            connection.abort(Runnable::run);
        } catch (SQLException e) {
            log.debug("closing the session connection", e);
        }
    }
}

package dev.forge.cluster.internal.database;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.UUID;
import javax.sql.DataSource;
import org.postgresql.PGConnection;

/** What stands between this node and the server. */
public enum Pooler {
    /** Nothing: a connection is a session. */
    NONE,
    /** Something that keeps a session to itself for as long as a connection lasts. */
    SESSION,
    /** Something that may change the session behind a connection after each transaction. */
    TRANSACTION;

    private static final int TRIES = 3;

    /** Finds out with two connections. */
    public static Pooler detect(DataSource direct) {
        try {
            return probe(direct);
        } catch (SQLException e) {
            throw Schema.unreachable(e);
        }
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

    /** A variable set on one connection is lost if another connection's open transaction can take its session away. */
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

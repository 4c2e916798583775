package dev.forge.cluster.internal.store;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Opens the connections that are the cluster's own, so that neither end hangs on a network that was cut. */
final class Dedicated {

    private static final Logger log = LoggerFactory.getLogger(Dedicated.class);

    /**
     * Each of these alone leaves a silently cut connection holding its locks for over a minute; together the server
     * gives it up after seven seconds. Nor does anything of ours wait long for a row that somebody else has locked. And
     * every statement finds its rows by an index, also while a table is small: the planner's guesses about a table whose
     * rows change their state many times a second cost a factor of twenty.
     */
    private static final String NOTICE_A_CUT = """
            SELECT set_config(s.name, v.setting, false)
            FROM (VALUES ('tcp_keepalives_idle', '3'), ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '4'),
                         ('tcp_user_timeout', '7000'), ('client_connection_check_interval', '500'),
                         ('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '2000'),
                         ('lock_timeout', '1000'),
                         ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
                         ('jit', 'off')) AS v (name, setting)
            JOIN pg_settings s ON s.name = v.name
            """;

    /**
     * All tables in our statements are qualified. An open search path would let every role that may create functions or
     * operators in one of its schemas (in public before PostgreSQL 15: everybody) run code with our rights.
     */
    private static final String FIXED_SEARCH_PATH = "SET search_path = pg_catalog, pg_temp";

    private Dedicated() {}

    static Connection open(DataSource direct, Pooler pooler, Duration readTimeout) throws SQLException {
        Connection connection = direct.getConnection();
        try {
            connection.setNetworkTimeout(Runnable::run, (int) readTimeout.toMillis());
            if (pooler == Pooler.TRANSACTION) {
                // The next statement may meet a session that does not know what was prepared, and keeps what is set.
                connection.unwrap(PGConnection.class).setPrepareThreshold(0);
            } else {
                fixSearchPath(connection);
                noticeCuts(connection);
            }
            return connection;
        } catch (SQLException e) {
            connection.close();
            throw e;
        }
    }

    private static void fixSearchPath(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(FIXED_SEARCH_PATH);
        }
    }

    private static void noticeCuts(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(NOTICE_A_CUT);
        } catch (SQLException e) {
            log.debug("the server does not take our settings for cut connections", e);
            if (connection.isClosed()) {
                throw e;
            }
        }
    }
}

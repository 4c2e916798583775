// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.slf4j.Logger;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Opens the cluster's own connections, with settings that keep client and server from waiting on a network that was cut. */
public final class DedicatedConnection {

    /** As the first statement of a transaction; it changes nothing else. */
    public static final String READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

    private static final Logger log = GuardedLogger.of(DedicatedConnection.class);

    /**
     * With these timeouts together the server closes a silently cut connection after seven seconds; with each of them alone the
     * connection would hold its locks for over a minute. No statement waits long for a row that another session has locked. And
     * every statement finds its rows by an index, even while a table is small: for a table whose rows change their state many
     * times a second, a wrong guess of the planner costs a factor of twenty.
     */
    private static final String CUT_DETECTION = """
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
     * Removes from the search path every schema in which a role may create objects that this role need not trust. A schema stays
     * if it belongs to this role, a role that it is a member of, the database's owner or a superuser, and if nobody but its owner
     * and this role may create in it. (A role that may create schemas can make one with the name of this role, which {@code
     * "$user"} finds; before PostgreSQL 15 every role could create in public.) A foreign function or operator whose argument
     * types fit better than the built-in one would otherwise run with the rights of this role. The cluster's own statements need
     * no search path, because all tables are qualified.
     *
     * <p>Transactions are READ COMMITTED, whatever the default of the database or the role is: the cluster's statements wait for
     * each other's rows, and would fail under a snapshot.
     */
    private static final String SAFE_DEFAULTS = """
            SELECT pg_catalog.set_config('search_path', coalesce((
                SELECT pg_catalog.string_agg(pg_catalog.quote_ident(n.nspname::text), ', '::text ORDER BY s.place) || ', '::text
                FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place)
                JOIN pg_catalog.pg_namespace n ON n.nspname = s.name
                JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
                JOIN pg_catalog.pg_roles me ON me.rolname = current_user
                JOIN pg_catalog.pg_database d ON d.datname = current_database()
                WHERE (o.oid = me.oid OR o.rolsuper OR o.oid = d.datdba OR o.rolname = 'pg_database_owner'::name
                       -- A superuser counts as a member of every role.
                       OR (NOT me.rolsuper AND pg_catalog.pg_has_role(me.oid, o.oid, 'MEMBER'::text)))
                  AND NOT EXISTS (
                    SELECT FROM pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n'::"char", n.nspowner))) a
                    WHERE a.privilege_type = 'CREATE'::text AND a.grantee <> n.nspowner AND a.grantee <> me.oid)),
                ''::text) || 'pg_temp'::text, false),
                pg_catalog.set_config('default_transaction_isolation', 'read committed', false)
            """;

    /** PostgreSQL 17 and later have a transaction_timeout. */
    private static final String NO_TIMEOUTS = """
            SELECT pg_catalog.set_config(name, '0', %s) FROM pg_catalog.pg_settings
            WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout',
                           'idle_session_timeout')
            """;

    private DedicatedConnection() {}

    public static Connection open(DataSource direct, Pooler pooler, Duration readTimeout) throws SQLException {
        Connection connection = direct.getConnection();
        try {
            connection.setNetworkTimeout(Runnable::run, (int) readTimeout.toMillis());
            if (pooler == Pooler.TRANSACTION) {
                // The next statement may run in another session, which lacks prepared statements and would keep
                // settings.
                connection.unwrap(PGConnection.class).setPrepareThreshold(0);
            } else {
                setSafeDefaults(connection);
                detectCuts(connection);
            }
            return connection;
        } catch (SQLException e) {
            connection.close();
            throw e;
        }
    }

    /**
     * Returns connections with safe defaults and without the timeouts that a role or a database may set, for migrations: Flyway
     * holds its lock in a transaction that is idle while the scripts run.
     */
    public static DataSource forMigration(DataSource direct, Pooler pooler) {
        return new DelegatingDataSource(direct) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = direct.getConnection();
                try {
                    if (pooler == Pooler.TRANSACTION) {
                        return withoutTimeoutsPerTransaction(connection);
                    }
                    setSafeDefaults(connection);
                    execute(connection, NO_TIMEOUTS.formatted(false));
                    return connection;
                } catch (SQLException e) {
                    connection.close();
                    throw e;
                }
            }
        };
    }

    /** Changes the settings of each transaction only: those of the session would reach the next client of the pooler. */
    private static Connection withoutTimeoutsPerTransaction(Connection connection) {
        return (Connection) Proxy.newProxyInstance(
                DedicatedConnection.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> {
                    try {
                        Object result = method.invoke(connection, arguments);
                        if (method.getName().equals("setAutoCommit") && !connection.getAutoCommit()) {
                            // In one round trip, because a short timeout could end the transaction between two.
                            execute(connection, READ_COMMITTED + ";" + NO_TIMEOUTS.formatted(true));
                        }
                        return result;
                    } catch (InvocationTargetException e) {
                        throw e.getTargetException();
                    }
                });
    }

    private static void setSafeDefaults(Connection connection) throws SQLException {
        execute(connection, SAFE_DEFAULTS);
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static void detectCuts(Connection connection) throws SQLException {
        try {
            execute(connection, CUT_DETECTION);
        } catch (SQLException e) {
            log.debug("Server rejected the settings that detect cut connections", e);
            if (connection.isClosed()) {
                throw e;
            }
        }
    }
}

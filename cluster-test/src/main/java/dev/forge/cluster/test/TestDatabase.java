// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** One database on the {@linkplain PostgresServer test server}. Dropped when closed. */
public final class TestDatabase implements AutoCloseable {

    private final PostgresServer server;
    private final String name;
    private final String url;
    private final DataSource dataSource;

    TestDatabase(PostgresServer server, String name, String url) {
        this.server = server;
        this.name = name;
        this.url = url;
        this.dataSource = new DriverManagerDataSource(url, server.username(), server.password());
    }

    /** The database's name. */
    public String name() {
        return name;
    }

    /** Without user and password. */
    public String url() {
        return url;
    }

    /** A role that may do anything here. */
    public String username() {
        return server.username();
    }

    /** The password of {@link #username()}. */
    public String password() {
        return server.password();
    }

    /** Opens a new connection at each use, and leaves none open. */
    public DataSource dataSource() {
        return dataSource;
    }

    /** Statements on connections that are closed after each. */
    public JdbcClient jdbc() {
        return JdbcClient.create(dataSource);
    }

    /**
     * Begins or ends a read-only window, as an operator does for maintenance: changes the default for new sessions, and at the
     * beginning ends all sessions that exist. Sessions that are opened during the window stay read-only.
     */
    public void setReadOnly(boolean readOnly) {
        try (Connection operator = dataSource.getConnection();
                Statement statement = operator.createStatement()) {
            statement.execute("SET default_transaction_read_only = off");
            statement.execute("ALTER DATABASE %s SET default_transaction_read_only = %s"
                    .formatted(name, readOnly ? "on" : "off"));
            if (readOnly) {
                statement.execute("""
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                        """);
            }
        } catch (SQLException e) {
            throw new IllegalStateException("cannot change the default of database " + name, e);
        }
    }

    /** Every session that is open on this database now, one line each. */
    public List<String> sessions() {
        return server.sessions(name);
    }

    @Override
    public void close() {
        server.drop(name);
    }
}

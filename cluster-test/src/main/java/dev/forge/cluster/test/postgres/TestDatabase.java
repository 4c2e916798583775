// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** A database on the {@linkplain PostgresServer test server}, which is dropped when it is closed. */
public final class TestDatabase implements AutoCloseable {

    private final PostgresServer server;
    private final String name;
    private final String url;
    private final DataSource newSessions;
    private final ReusedSessions dataSource;
    private final MovableTime time = new MovableTime(this);

    TestDatabase(PostgresServer server, String name, String url) {
        this.server = server;
        this.name = name;
        this.url = url;
        this.newSessions = new DriverManagerDataSource(url, server.username(), server.password());
        this.dataSource = new ReusedSessions(newSessions);
    }

    /** Returns the name of the database. */
    public String name() {
        return name;
    }

    /** Returns the JDBC URL without user and password. */
    public String url() {
        return url;
    }

    /** Returns the host of the server. */
    public String host() {
        return server.host();
    }

    /** Returns the port of the server. */
    public int port() {
        return server.port();
    }

    /** Returns the JDBC URL by which the database is reached through another host and port, such as those of a {@link TcpProxy}. */
    public String urlAt(String host, int port) {
        return url.replaceFirst("//[^/]+/", "//%s:%d/".formatted(host, port));
    }

    /** Returns the name of a superuser. */
    public String username() {
        return server.username();
    }

    /** Returns the password of {@link #username()}. */
    public String password() {
        return server.password();
    }

    /** Returns a pool without a limit, which resets and reuses closed connections. */
    public DataSource dataSource() {
        return dataSource;
    }

    /** Returns a data source that opens a new session at each use and ends it when the connection is closed. */
    public DataSource newSessions() {
        return newSessions;
    }

    /** Returns a client of {@link #dataSource()}. */
    public JdbcClient jdbc() {
        return JdbcClient.create(dataSource);
    }

    /** Returns the time of a database that {@link PostgresServer#createDatabaseWithMovableTime} has created. */
    public MovableTime time() {
        return time;
    }

    /** Starts a standby of the server if it should have one and has none. */
    public void requireStandby() {
        ReplicatedPostgres replicated = server.replicated();
        if (replicated != null) {
            replicated.requireStandby();
        }
    }

    /** Ends the server and promotes its standby, to which this database belongs from then on. */
    public void promoteStandby() {
        ReplicatedPostgres replicated = server.replicated();
        if (replicated == null) {
            throw new IllegalStateException(
                    "ClusterTester.promoteStandby: the database has no standby. Use @ClusterTest(nodes = 2, standby = true)");
        }
        replicated.promoteStandby();
        endIdleSessions();
    }

    /** Empties the cluster's tables in every schema that has them. */
    public void clear() {
        jdbc().sql("""
                DO $$
                DECLARE
                    -- No trigger may react to the deletions; only a superuser can prevent that.
                    deletes boolean := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
                    used record;
                    large text;
                BEGIN
                    IF deletes THEN
                        PERFORM set_config('session_replication_role', 'replica', true);
                    END IF;
                    FOR used IN
                        SELECT c.oid::regclass AS name, pg_relation_size(c.oid) AS bytes FROM pg_class c
                        WHERE c.relkind = 'r' AND c.relname LIKE 'forge\\_%' AND pg_relation_size(c.oid) > 0
                          AND c.relname NOT IN ('forge_schema_versions', 'forge_settings', 'forge_job_group_locks')
                    LOOP
                        -- Truncating creates new files for the table and its indexes: slower than deleting a few rows.
                        IF deletes AND used.bytes <= 65536 THEN
                            EXECUTE 'DELETE FROM ' || used.name;
                        ELSE
                            large := concat_ws(', ', large, used.name);
                        END IF;
                    END LOOP;
                    IF large IS NOT NULL THEN
                        EXECUTE 'TRUNCATE ' || large;
                    END IF;
                END
                $$
                """).update();
    }

    /**
     * Begins or ends a read-only window, as an operator does for maintenance: changes the default for new sessions, and at the
     * beginning ends all sessions that exist. Sessions that are opened during the window stay read-only.
     */
    public void setReadOnly(boolean readOnly) {
        try (Connection operator = newSessions.getConnection();
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
        endIdleSessions();
    }

    /** Returns a line for each open session on this database, except those that {@link #dataSource()} keeps for reuse. */
    public List<String> sessions() {
        return server.sessions(name, dataSource.idleProcesses());
    }

    /** Ends the kept sessions of {@link #dataSource()}, so that new ones see changed settings of the database or role. */
    public void endIdleSessions() {
        dataSource.endIdle();
    }

    @Override
    public void close() {
        dataSource.close();
        server.drop(name);
    }
}

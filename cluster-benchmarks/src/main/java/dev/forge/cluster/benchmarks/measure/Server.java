// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.PromptSocketFactory;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * A database with the schema of Forge Cluster, and the pool that every contestant uses. All parts use one PostgreSQL server,
 * which is as durable as in production.
 */
public final class Server implements AutoCloseable {

    public static final int POOL = 20;
    private static final String DATABASE = "postgres";

    private final @Nullable EmbeddedPostgres postgres;
    private final int port;
    private final String database;
    private final DataSource direct;
    private final HikariDataSource pool;
    private final Schema schema;
    private final Cpu cpu;

    private Server(@Nullable EmbeddedPostgres postgres, int port, String database) {
        this.postgres = postgres;
        this.port = port;
        this.database = database;
        direct = direct(port, database);
        pool = newPool(database, direct);
        schema = Schema.open(direct, SchemaMode.MIGRATE, "public");
        cpu = new Cpu((int) number("SELECT pg_backend_pid()"));
    }

    /** Starts a PostgreSQL server. */
    public static Server start() throws IOException {
        EmbeddedPostgres postgres = EmbeddedPostgres.builder()
                .setServerConfig("fsync", "on")
                .setServerConfig("synchronous_commit", "on")
                .setServerConfig("full_page_writes", "on")
                // Prevents automatic checkpoints during a measurement; parts run a checkpoint before it.
                .setServerConfig("max_wal_size", "4GB")
                .setServerConfig("checkpoint_timeout", "30min")
                // Allows the connections of a hundred nodes.
                .setServerConfig("max_connections", "500")
                .start();
        return new Server(postgres, postgres.getPort(), DATABASE);
    }

    /** Connects to a server that another process has started. */
    public static Server at(int port) {
        return new Server(null, port, DATABASE);
    }

    /** Creates another database on the same server. */
    public Server createDatabase(String name) {
        execute("CREATE DATABASE " + name);
        return new Server(null, port, name);
    }

    public int port() {
        return port;
    }

    private static HikariDataSource newPool(String name, DataSource direct) {
        var config = new HikariConfig();
        config.setDataSource(direct);
        config.setMaximumPoolSize(POOL);
        config.setMinimumIdle(POOL);
        config.setPoolName(name);
        return new HikariDataSource(config);
    }

    public Schema schema() {
        return schema;
    }

    /** Returns a data source that opens a new connection each time. */
    public DataSource direct() {
        return direct;
    }

    private static DataSource direct(int port, String database) {
        // The starter uses the same socket factory for its direct connections.
        var properties = new Properties();
        PromptSocketFactory.addTo(properties);
        return new DriverManagerDataSource(url(port, database), properties);
    }

    private static String url(int port, String database) {
        return "jdbc:postgresql://localhost:%d/%s?user=postgres".formatted(port, database);
    }

    public String url() {
        return url(port, database);
    }

    public DataSource pool() {
        return pool;
    }

    public Cpu cpu() {
        return cpu;
    }

    public String version() {
        return text("SHOW server_version");
    }

    public void execute(String sql) {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(sql, e);
        }
    }

    public long number(String sql) {
        return Long.parseLong(text(sql));
    }

    private String text(String sql) {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getString(1);
        } catch (SQLException e) {
            throw new IllegalStateException(sql, e);
        }
    }

    /**
     * Waits until no such row exists.
     *
     * @param from a table, and optionally a WHERE clause
     */
    public void awaitNone(String from) {
        while (number("SELECT count(*) FROM (SELECT FROM " + from + " LIMIT 1) AS any_row") > 0) {
            Pause.millis(2);
        }
    }

    @Override
    public void close() throws IOException {
        pool.close();
        if (postgres != null) {
            postgres.close();
        }
    }
}

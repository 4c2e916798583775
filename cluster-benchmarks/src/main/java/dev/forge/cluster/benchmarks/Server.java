// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;

/** One PostgreSQL for all parts, as durable as in production, and the pool that every contestant uses. */
final class Server implements AutoCloseable {

    static final int POOL = 20;

    private final EmbeddedPostgres postgres;
    private final HikariDataSource pool;
    private final Schema schema;
    private final Cpu cpu;

    Server() throws IOException {
        postgres = EmbeddedPostgres.builder()
                .setServerConfig("fsync", "on")
                .setServerConfig("synchronous_commit", "on")
                .setServerConfig("full_page_writes", "on")
                // The parts run a checkpoint before each measurement, so none starts in the middle of one.
                .setServerConfig("max_wal_size", "4GB")
                .setServerConfig("checkpoint_timeout", "30min")
                .start();
        pool = pool("postgres");
        schema = Schema.open(postgres.getPostgresDatabase(), SchemaMode.MIGRATE, "public");
        cpu = new Cpu((int) number("SELECT pg_backend_pid()"));
    }

    /** Creates a separate pool for that database. */
    HikariDataSource pool(String database) {
        var config = new HikariConfig();
        config.setDataSource(postgres.getDatabase("postgres", database));
        config.setMaximumPoolSize(POOL);
        config.setMinimumIdle(POOL);
        config.setPoolName(database);
        return new HikariDataSource(config);
    }

    Schema schema() {
        return schema;
    }

    /** Returns a data source that opens a new connection each time. */
    DataSource direct() {
        return postgres.getPostgresDatabase();
    }

    DataSource pool() {
        return pool;
    }

    Cpu cpu() {
        return cpu;
    }

    String version() {
        return text("SHOW server_version");
    }

    void execute(String sql) {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(sql, e);
        }
    }

    long number(String sql) {
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

    /** Waits until no such row exists. */
    void awaitNone(String from) {
        while (number("SELECT count(*) FROM (SELECT FROM " + from + " LIMIT 1) AS any_row") > 0) {
            Pause.millis(2);
        }
    }

    @Override
    public void close() throws IOException {
        pool.close();
        postgres.close();
    }
}

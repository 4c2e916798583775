// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.task.SimpleAsyncTaskExecutor;

/** Bounds how long each statement of a migration waits for a lock, and finds out which sessions block it. */
final class MigrationLockWait implements AutoCloseable {

    private static final Logger log = GuardedLogger.of(Migrator.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private static final String BLOCKERS = """
            SELECT pg_catalog.string_agg(pg_catalog.format('session %s of role %s (%s)', b.pid,
                       coalesce(b.usename::text, 'unknown'::text), coalesce(b.application_name, ''::text)), ', '::text)
            FROM pg_catalog.pg_stat_activity b WHERE b.pid = ANY (pg_catalog.pg_blocking_pids(?))
            """;

    private final DataSource direct;
    private final Duration timeout;
    private final SimpleAsyncTaskExecutor threads = new SimpleAsyncTaskExecutor("forge-cluster-migration-");
    private volatile boolean closed;
    private volatile int migrating;
    private volatile String blockers = "another session";
    private @Nullable Future<?> watching;

    MigrationLockWait(DataSource direct, Duration timeout) {
        this.direct = direct;
        this.timeout = timeout;
    }

    /**
     * Returns a query that bounds the wait in the running transaction only, because behind a pooler another client gets the
     * session afterwards. Its result is the process id of the session.
     */
    String bound() {
        return "SELECT pg_backend_pid() FROM set_config('lock_timeout', '%d', true)".formatted(timeout.toMillis());
    }

    /** Bounds the wait in the running transaction of a connection, and watches its session from now on. */
    void bound(Connection migration) throws SQLException {
        try (Statement statement = migration.createStatement();
                ResultSet row = statement.executeQuery(bound())) {
            row.next();
            migrating = row.getInt(1);
        }
        if (watching == null) {
            watching = threads.submit(this::watch);
        }
    }

    /** Returns the sessions that were last seen blocking the migration. */
    String blockers() {
        return blockers;
    }

    private void watch() {
        try (Connection connection = direct.getConnection();
                PreparedStatement look = connection.prepareStatement(BLOCKERS);
                Statement pause = connection.createStatement()) {
            while (!closed) {
                look.setInt(1, migrating);
                try (ResultSet row = look.executeQuery()) {
                    row.next();
                    String seen = row.getString(1);
                    blockers = seen == null ? blockers : seen;
                }
                pause.execute("SELECT pg_sleep(0.05)");
            }
        } catch (SQLException e) {
            log.debug("Could not find out which session blocks a migration", e);
        }
    }

    @Override
    public void close() {
        closed = true;
        Future<?> last = watching;
        if (last == null) {
            return;
        }
        try {
            last.get(STOP_PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException e) {
            log.debug("The watch for sessions that block a migration did not end", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

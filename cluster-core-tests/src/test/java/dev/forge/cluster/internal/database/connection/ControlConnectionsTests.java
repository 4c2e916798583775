// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.runtime.FailureRow;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The pool of control connections. Tests wait for sessions to end, because the server needs a moment to end closed ones. */
@ClusterPostgres
class ControlConnectionsTests {

    private final TestDatabase database;
    private final ControlConnections control;
    private final JdbcClient jdbc;

    ControlConnectionsTests(TestDatabase database) {
        this.database = database;
        this.control = new ControlConnections(database.newSessions(), Pooler.NONE, 2, Duration.ofMillis(50));
        this.jdbc = JdbcClient.create(control);
    }

    @AfterEach
    void close() {
        control.close();
    }

    private int backend() {
        return jdbc.sql("SELECT pg_backend_pid()").query(Integer.class).single();
    }

    @Test
    void connection_is_kept_and_used_again() {
        assertThat(backend()).isEqualTo(backend());
        await().until(() -> database.sessions().size() == 1);
    }

    @Test
    void statements_are_not_compiled_unless_a_transaction_pooler_prevents_the_setting() {
        database.jdbc()
                .sql("ALTER DATABASE %s SET jit = on".formatted(database.name()))
                .update();
        assertThat(jdbc.sql("SHOW jit").query(String.class).single()).isEqualTo("off");
        try (var pooled =
                new ControlConnections(database.newSessions(), Pooler.TRANSACTION, 1, Duration.ofMillis(50))) {
            assertThat(JdbcClient.create(pooled)
                            .sql("SHOW jit")
                            .query(String.class)
                            .single())
                    .isEqualTo("on");
        }
    }

    @Test
    void pool_opens_no_more_connections_than_its_size_and_rejects_a_further_caller() throws Exception {
        try (Connection one = control.getConnection();
                Connection two = control.getConnection()) {
            assertThat(one).isNotEqualTo(two);
            assertThatExceptionOfType(SQLTransientConnectionException.class).isThrownBy(control::getConnection);
        }
        await().until(() -> database.sessions().size() == 2);
    }

    @Test
    void terminated_session_fails_one_statement_and_is_replaced() {
        int terminated = backend();
        database.jdbc()
                .sql("SELECT pg_terminate_backend(?)")
                .param(terminated)
                .query()
                .listOfRows();
        assertThatExceptionOfType(RuntimeException.class).isThrownBy(this::backend);
        assertThat(backend()).isNotEqualTo(terminated);
        assertThat(backend()).isPositive();
    }

    @Test
    void only_a_successful_statement_proves_to_its_thread_that_the_database_answers() {
        var row = new FailureRow(() -> 0, since -> false);
        row.failed();
        row.begin();
        assertThat(row.succeeded()).isZero();
        row.begin();
        assertThatExceptionOfType(RuntimeException.class)
                .isThrownBy(() -> jdbc.sql("SELECT 1 / 0").query(Integer.class).single());
        assertThat(row.succeeded()).isZero();
        row.begin();
        backend();
        assertThat(row.succeeded()).isOne();
        assertThat(row.length()).isZero();
    }

    @Test
    void connection_is_replaced_after_half_an_hour() {
        var nanos = new AtomicLong();
        try (var ageing =
                new ControlConnections(database.newSessions(), Pooler.NONE, 1, Duration.ofMillis(50), nanos::get)) {
            JdbcClient own = JdbcClient.create(ageing);
            int first = own.sql("SELECT pg_backend_pid()").query(Integer.class).single();
            nanos.addAndGet(Duration.ofMinutes(23).toNanos());
            assertThat(own.sql("SELECT pg_backend_pid()").query(Integer.class).single())
                    .isEqualTo(first);
            nanos.addAndGet(Duration.ofMinutes(8).toNanos());
            assertThat(own.sql("SELECT pg_backend_pid()").query(Integer.class).single())
                    .isNotEqualTo(first);
        }
    }

    @Test
    void read_only_session_is_replaced_once_it_is_a_second_old() {
        var nanos = new AtomicLong();
        try (var ageing =
                new ControlConnections(database.newSessions(), Pooler.NONE, 1, Duration.ofMillis(50), nanos::get)) {
            JdbcClient own = JdbcClient.create(ageing);
            own.sql("SET default_transaction_read_only = on").update();
            assertThatExceptionOfType(RuntimeException.class)
                    .isThrownBy(() -> own.sql("CREATE TABLE refused (id int)").update())
                    .withMessageContaining("read-only");
            // The connection is too young to be replaced.
            assertThatExceptionOfType(RuntimeException.class)
                    .isThrownBy(() -> own.sql("CREATE TABLE refused (id int)").update());
            nanos.addAndGet(Duration.ofSeconds(1).toNanos());
            own.sql("CREATE TABLE accepted (id int)").update();
        }
    }

    @Test
    void connections_opened_before_a_replacement_are_replaced() {
        var nanos = new AtomicLong();
        try (var ageing =
                new ControlConnections(database.newSessions(), Pooler.NONE, 1, Duration.ofMillis(50), nanos::get)) {
            JdbcClient own = JdbcClient.create(ageing);
            int first = own.sql("SELECT pg_backend_pid()").query(Integer.class).single();
            nanos.addAndGet(Duration.ofSeconds(1).toNanos());
            ControlConnections.replace(ageing.shared());
            assertThat(own.sql("SELECT pg_backend_pid()").query(Integer.class).single())
                    .isNotEqualTo(first);
        }
    }

    @Test
    void reports_get_one_connection_at_a_time_and_leave_the_others_to_other_callers() throws Exception {
        try (var own = new ControlConnections(
                database.newSessions(), Pooler.NONE, 3, Duration.ofMillis(50), System::nanoTime)) {
            try (Connection report = own.reports().getConnection()) {
                assertThat(report.isValid(10)).isTrue();
                assertThatThrownBy(() -> own.reports().getConnection())
                        .isInstanceOf(SQLTransientConnectionException.class);
                try (Connection other = own.shared().getConnection()) {
                    assertThat(other.isValid(10)).isTrue();
                }
            }
            try (Connection next = own.reports().getConnection()) {
                assertThat(next.isValid(10)).isTrue();
            }
        }
    }

    @Test
    void open_transaction_is_rolled_back_when_its_connection_is_returned() throws Exception {
        try (Connection connection = control.getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT forge_enqueue('lost')");
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'lost'")
                        .query(Long.class)
                        .single())
                .isZero();
        try (Connection connection = control.getConnection()) {
            assertThat(connection.getAutoCommit()).isTrue();
        }
    }

    @Test
    void returned_connection_cannot_be_used() throws Exception {
        Connection connection = control.getConnection();
        connection.close();
        connection.close();
        assertThat(connection.isClosed()).isTrue();
        assertThatExceptionOfType(SQLException.class).isThrownBy(connection::createStatement);
        try (Connection one = control.getConnection();
                Connection two = control.getConnection()) {
            assertThat(one).isNotEqualTo(two);
            assertThatExceptionOfType(SQLTransientConnectionException.class).isThrownBy(control::getConnection);
        }
    }

    @Test
    void closed_pool_rejects_callers_until_it_is_reopened() {
        backend();
        control.close();
        assertThatExceptionOfType(RuntimeException.class).isThrownBy(this::backend);
        await().until(() -> database.sessions().isEmpty());
        control.reopen();
        assertThat(backend()).isPositive();
    }

    @Test
    void statement_behind_a_transaction_pooler_does_not_wait_on_the_server_after_its_time() throws Exception {
        String write = "UPDATE forge_settings SET max_payload_bytes = max_payload_bytes";
        try (var pooled = new ControlConnections(database.newSessions(), Pooler.TRANSACTION, 1, Duration.ofMillis(50));
                Connection holder = database.dataSource().getConnection()) {
            holder.setAutoCommit(false);
            holder.createStatement().execute(write);
            assertThatExceptionOfType(RuntimeException.class)
                    .isThrownBy(() -> JdbcClient.create(pooled).sql(write).update());
            // The server does not notice that the client has closed its connection to the pooler: without its own
            // timeout the statement would wait until the holder releases the lock.
            await().until(() -> database.jdbc().sql("""
                    SELECT NOT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                                       WHERE NOT granted AND datname = current_database())
                    """).query(Boolean.class).single());
        }
    }

    @Test
    void heartbeat_gets_a_connection_before_other_waiting_callers() throws Exception {
        var threads = Executors.newFixedThreadPool(6);
        var busy = new AtomicBoolean(true);
        try (var slow = new ControlConnections(database.newSessions(), Pooler.NONE, 2, Duration.ofMillis(500))) {
            var statements = new AtomicInteger();
            for (int i = 0; i < 6; i++) {
                threads.execute(() -> {
                    while (busy.get()) {
                        try {
                            JdbcClient.create(slow)
                                    .sql("SELECT pg_sleep(0.4)")
                                    .query()
                                    .listOfRows();
                            statements.incrementAndGet();
                        } catch (RuntimeException e) {
                            // This caller is served later.
                        }
                    }
                });
            }
            await().until(() -> statements.get() > 2);
            JdbcClient heartbeat = JdbcClient.create(slow.urgent());
            for (int i = 0; i < 5; i++) {
                assertThat(heartbeat.sql("SELECT 1").query(Integer.class).single())
                        .isOne();
            }
            busy.set(false);
        } finally {
            busy.set(false);
            threads.shutdown();
            assertThat(threads.awaitTermination(1, TimeUnit.MINUTES)).isTrue();
        }
    }
}

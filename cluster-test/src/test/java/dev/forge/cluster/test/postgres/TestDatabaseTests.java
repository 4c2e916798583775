// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

@ClusterPostgres
class TestDatabaseTests {

    private final TestDatabase database;

    TestDatabaseTests(TestDatabase database) {
        this.database = database;
    }

    private int process(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                var row = statement.executeQuery("SELECT pg_backend_pid()")) {
            row.next();
            return row.getInt(1);
        }
    }

    private <T> T ask(Class<T> type, String query) {
        return database.jdbc().sql(query).query(type).single();
    }

    @Test
    void reused_session_keeps_no_state_of_its_former_user() throws SQLException {
        int former;
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            former = process(connection);
            statement.execute("SET statement_timeout = '7s'");
            statement.execute("CREATE TEMPORARY TABLE left_behind (id int)");
            statement.execute("SELECT pg_advisory_lock(1)");
            connection.setAutoCommit(false);
            connection.setReadOnly(true);
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            statement.execute("SELECT 1");
        }
        assertThat(ask(Integer.class, "SELECT pg_backend_pid()")).isEqualTo(former);
        assertThat(ask(String.class, "SHOW statement_timeout")).isEqualTo("0");
        assertThat(ask(String.class, "SHOW transaction_isolation")).isEqualTo("read committed");
        assertThat(ask(String.class, "SHOW transaction_read_only")).isEqualTo("off");
        assertThat(ask(Boolean.class, "SELECT to_regclass('left_behind') IS NULL"))
                .isTrue();
        assertThat(ask(
                        Long.class,
                        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
                .isZero();
    }

    @Test
    void session_that_was_terminated_is_replaced() throws SQLException {
        int former = ask(Integer.class, "SELECT pg_backend_pid()");
        JdbcClient.create(database.newSessions())
                .sql("SELECT pg_terminate_backend(?, 60000)")
                .param(former)
                .query()
                .singleRow();
        assertThat(ask(Integer.class, "SELECT pg_backend_pid()")).isNotEqualTo(former);
    }

    @Test
    void connections_in_use_count_as_sessions_and_idle_ones_do_not() throws SQLException {
        try (Connection one = database.dataSource().getConnection();
                Connection two = database.dataSource().getConnection()) {
            assertThat(process(one)).isNotEqualTo(process(two));
            await().atMost(1, TimeUnit.MINUTES).until(() -> database.sessions().size() == 2);
        }
        await().atMost(1, TimeUnit.MINUTES).until(() -> database.sessions().isEmpty());
    }

    @Test
    void closed_connection_refuses_statements() throws SQLException {
        Connection connection = database.dataSource().getConnection();
        connection.close();
        connection.close();
        assertThat(connection.isClosed()).isTrue();
        assertThatExceptionOfType(SQLException.class).isThrownBy(connection::createStatement);
    }

    @Test
    void cleared_database_has_no_rows_and_keeps_its_settings() {
        database.jdbc().sql("SELECT forge_enqueue('job')").query().singleRow();
        database.clear();
        assertThat(ask(Long.class, "SELECT count(*) FROM forge_jobs")).isZero();
        assertThat(ask(Long.class, "SELECT count(*) FROM forge_settings")).isOne();
        assertThat(ask(Long.class, "SELECT count(*) FROM forge_schema_versions"))
                .isOne();
    }
}

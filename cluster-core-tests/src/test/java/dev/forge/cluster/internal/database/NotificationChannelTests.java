// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Verifies that a notification does not change the durability of its session and of the transaction that sends it. */
@ClusterPostgres
class NotificationChannelTests {

    private final TestDatabase database;
    private final Schema schema;
    private SessionConnection listener;

    NotificationChannelTests(TestDatabase database) {
        this.database = database;
        this.schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
    }

    @BeforeEach
    void listen() {
        listener = SessionConnection.open(database.newSessions(), schema, UUID.randomUUID());
    }

    @AfterEach
    void close() {
        listener.close();
    }

    @Test
    void separate_notification_leaves_the_session_unchanged() throws SQLException {
        try (Connection connection = connection()) {
            channel(connection).send("alone");
            assertThat(listener.notifications(Duration.ofMinutes(1))).containsExactly("alone");
            assertThat(synchronousCommit(connection)).isEqualTo("on");
        }
    }

    @Test
    void transaction_that_sends_a_notification_is_flushed_when_it_commits() throws SQLException {
        try (Connection connection = connection()) {
            connection.setAutoCommit(false);
            channel(connection).send("with a change");
            assertThat(synchronousCommit(connection)).isEqualTo("on");
            connection.commit();
            assertThat(listener.notifications(Duration.ofMinutes(1))).containsExactly("with a change");
        }
    }

    private Connection connection() throws SQLException {
        Connection connection = database.newSessions().getConnection();
        connection.createStatement().execute("SET synchronous_commit = on");
        return connection;
    }

    private NotificationChannel channel(Connection connection) {
        return new NotificationChannel(schema, new SingleConnectionDataSource(connection, true));
    }

    private static String synchronousCommit(Connection connection) {
        return JdbcClient.create(new SingleConnectionDataSource(connection, true))
                .sql("SHOW synchronous_commit")
                .query(String.class)
                .single();
    }

    @Test
    void statement_on_a_session_that_was_lost_fails_as_a_lost_connection() {
        listener.close();
        assertThatThrownBy(() -> JdbcClient.create(listener.source())
                        .sql("SELECT 1")
                        .query()
                        .listOfRows())
                .satisfies(failure -> assertThat(DatabaseFailure.kind(failure) == Kind.CONNECTION_LOST)
                        .isTrue());
    }
}

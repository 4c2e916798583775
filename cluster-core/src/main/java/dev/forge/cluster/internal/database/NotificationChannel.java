// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Objects;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.UncategorizedSQLException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;

/** Sends notifications to the nodes that listen. */
public final class NotificationChannel {

    private static final String SEND = "SELECT pg_notify(?, ?)";

    // A notification is a transaction of its own, whose commit would wait until the disk, and synchronous standbys,
    // have its record. That is of no use: a crash of the server ends the sessions of all listeners. It would double the
    // time until another node starts a job.
    private static final String SEND_WITHOUT_FLUSH = SEND + ", set_config('synchronous_commit', 'off', true)";

    private final Schema schema;
    private final DataSource source;
    private final JdbcTemplate jdbc;
    private final CallerTransaction transaction;

    public NotificationChannel(Schema schema, DataSource source) {
        this.schema = schema;
        this.source = source;
        this.jdbc = new JdbcTemplate(source);
        this.transaction = new CallerTransaction(source);
    }

    /** Sends a notification: now, or when the current transaction commits. */
    public void send(String text) {
        if (transaction.isActive()) {
            ConnectionCallback<@Nullable Void> send = connection -> {
                send(connection, text);
                return null;
            };
            jdbc.execute(send);
            return;
        }
        // Not through Spring, which would keep the connection until a transaction of the caller ends.
        try (Connection connection = source.getConnection()) {
            send(connection, text);
        } catch (SQLException e) {
            throw Objects.requireNonNullElseGet(
                    jdbc.getExceptionTranslator().translate("notification", SEND, e),
                    () -> new UncategorizedSQLException("notification", SEND, e));
        }
    }

    private void send(Connection connection, String text) throws SQLException {
        // Other changes of the same transaction must be safe after its commit.
        String sql = connection.getAutoCommit() ? SEND_WITHOUT_FLUSH : SEND;
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, schema.channel());
            statement.setString(2, text);
            statement.execute();
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.properties.node.DirectConnectionProperties;
import dev.forge.cluster.internal.database.connection.PromptSocketFactory;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.jdbc.DataSourceBuilder;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;

/**
 * Opens unpooled connections that look to the server like those of the application's pool: same driver properties and initial SQL.
 * URL, user and password are those of {@link DirectConnectionProperties}, or else the application's.
 */
final class DirectDataSource extends AbstractDataSource {

    /** The timeout of a login, and of each read during the login, in seconds. */
    private static final int LOGIN_SECONDS = 5;

    private final DataSource application;
    private final DirectConnectionProperties settings;

    DirectDataSource(DataSource application, DirectConnectionProperties settings) {
        this.application = application;
        this.settings = settings;
    }

    @Override
    public Connection getConnection() throws SQLException {
        Connection connection = openAsConfigured();
        try {
            if (connection.getNetworkTimeout() == LOGIN_SECONDS * 1_000) {
                // The socket timeout was meant for the login; statements of a migration may take longer.
                connection.setNetworkTimeout(Runnable::run, 0);
            }
            return connection;
        } catch (SQLException e) {
            connection.close();
            throw e;
        }
    }

    private Connection openAsConfigured() throws SQLException {
        // Read for each connection: passwords may rotate while the application runs.
        HikariDataSource hikari = ClusterDatabase.HIKARI ? ClusterDatabase.hikari(application) : null;
        if (hikari != null) {
            return Hikari.open(hikari, settings);
        }
        if (settings.url() != null && settings.username() != null && settings.password() != null) {
            return open(settings.url(), settings.username(), settings.password(), new Properties());
        }
        SimpleDriverDataSource derived = derived();
        return open(
                orElse(settings.url(), derived.getUrl()),
                orElse(settings.username(), derived.getUsername()),
                orElse(settings.password(), derived.getPassword()),
                new Properties());
    }

    @Override
    public Connection getConnection(String username, String password) {
        throw new UnsupportedOperationException("Direct connections have one configured user");
    }

    private static Connection open(
            @Nullable String url, @Nullable String username, @Nullable String password, Properties properties)
            throws SQLException {
        if (url == null) {
            throw unreadable(null);
        }
        var source = new DriverManagerDataSource(url);
        source.setUsername(username);
        source.setPassword(password);
        if (url.startsWith("jdbc:postgresql:")) {
            properties.putIfAbsent("ApplicationName", "forge-cluster");
            properties.putIfAbsent("tcpKeepAlive", "true");
            String seconds = Integer.toString(LOGIN_SECONDS);
            properties.putIfAbsent("connectTimeout", seconds);
            properties.putIfAbsent("loginTimeout", seconds);
            // The driver logs in on a thread of its own, which ends only when its read does, not at the login timeout.
            // Without a socket timeout each attempt would leak a thread while a server accepts connections but does not
            // respond.
            properties.putIfAbsent("socketTimeout", seconds);
            properties.putIfAbsent("cancelSignalTimeout", "5");
            PromptSocketFactory.addTo(properties);
        }
        source.setConnectionProperties(properties);
        return source.getConnection();
    }

    private SimpleDriverDataSource derived() {
        try {
            return DataSourceBuilder.derivedFrom(application)
                    .type(SimpleDriverDataSource.class)
                    .build();
        } catch (RuntimeException e) {
            throw unreadable(e);
        }
    }

    private static ClusterStartupException unreadable(@Nullable RuntimeException cause) {
        String message = "Forge Cluster needs connections of its own but cannot read the URL from the DataSource";
        String action = "Set forge.cluster.direct-connection.url, username and password.";
        return cause == null
                ? new ClusterStartupException(message, action)
                : new ClusterStartupException(message, action, cause);
    }

    private static @Nullable String orElse(@Nullable String configured, @Nullable String own) {
        return configured != null ? configured : own;
    }

    /** A class of its own, because HikariCP may be absent. */
    private static final class Hikari {

        static Connection open(HikariDataSource hikari, DirectConnectionProperties settings) throws SQLException {
            var properties = new Properties();
            properties.putAll(hikari.getDataSourceProperties());
            Connection connection = DirectDataSource.open(
                    orElse(settings.url(), hikari.getJdbcUrl()),
                    orElse(settings.username(), hikari.getUsername()),
                    orElse(settings.password(), hikari.getPassword()),
                    properties);
            if (hikari.getConnectionInitSql() != null) {
                try (Statement statement = connection.createStatement()) {
                    statement.execute(hikari.getConnectionInitSql());
                } catch (SQLException e) {
                    connection.close();
                    throw e;
                }
            }
            return connection;
        }
    }
}

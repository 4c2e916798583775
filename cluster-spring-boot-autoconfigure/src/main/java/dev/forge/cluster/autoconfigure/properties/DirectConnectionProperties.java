package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import org.jspecify.annotations.Nullable;

/**
 * How the dedicated connections reach the database.
 *
 * @param url JDBC URL of the dedicated connections, past a pooler; the DataSource's own by default.
 * @param username User of the dedicated connections; the DataSource's own by default.
 * @param password Password of the dedicated connections; the DataSource's own by default.
 */
public record DirectConnectionProperties(
        @Nullable String url,
        @Nullable String username,
        @Nullable String password) {
    public DirectConnectionProperties {
        notBlank("direct-connection.url", url);
        require(
                url != null || username == null,
                "direct-connection.username",
                username,
                "needs forge.cluster.direct-connection.url");
        require(
                url != null || password == null,
                "direct-connection.password",
                "***",
                "needs forge.cluster.direct-connection.url");
    }

    @Override
    public String toString() {
        // Neither the password nor a URL's parameters, among which it may be.
        return "DirectConnection[url=%s, username=%s]"
                .formatted(url == null ? null : url.replaceAll("\\?.*", ""), username);
    }
}

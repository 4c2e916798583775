// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import org.jspecify.annotations.Nullable;

/**
 * Dedicated connections to the database.
 *
 * @param url JDBC URL of the dedicated connections, to bypass a pooler. Default: the URL of the DataSource.
 * @param username User of the dedicated connections. Default: the user of the DataSource.
 * @param password Password of the dedicated connections. Default: the password of the DataSource.
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
        // Without the password and the parameters of the URL, which may contain it.
        return "DirectConnection[url=%s, username=%s]"
                .formatted(url == null ? null : url.replaceAll("\\?.*", ""), username);
    }
}

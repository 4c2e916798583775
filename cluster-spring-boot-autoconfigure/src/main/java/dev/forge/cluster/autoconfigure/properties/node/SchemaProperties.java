// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.node;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import dev.forge.cluster.SchemaMode;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Schema of the cluster's tables.
 *
 * @param mode What happens at start-up if the schema is missing or outdated: migrate installs it, validate fails the start (and needs
 *     no Flyway), none does not check.
 * @param name Schema that holds the tables. One schema is one cluster. Default: the current schema of the connection.
 */
public record SchemaProperties(
        @DefaultValue("migrate") SchemaMode mode, @Nullable String name) {
    public SchemaProperties {
        notBlank("schema.name", name);
        require(
                name == null || name.getBytes(StandardCharsets.UTF_8).length <= 63,
                "schema.name",
                name,
                "is longer than 63 bytes, the longest name in PostgreSQL");
    }
}

package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import dev.forge.cluster.SchemaMode;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Where the cluster's tables are.
 *
 * @param mode What to do when the schema is missing or behind: migrate installs it, validate refuses to start (and
 *     needs no Flyway), none believes that it is current.
 * @param name The schema that holds the cluster; the connection's current schema by default. One schema is one
 *     cluster.
 */
public record SchemaProperties(
        @DefaultValue("migrate") SchemaMode mode, @Nullable String name) {
    public SchemaProperties {
        notBlank("schema.name", name);
        require(
                name == null || name.getBytes(StandardCharsets.UTF_8).length <= 63,
                "schema.name",
                name,
                "is longer than the 63 bytes of a PostgreSQL name");
    }
}

package dev.forge.cluster.autoconfigure.actuate;

import java.util.Set;
import org.springframework.boot.actuate.endpoint.Show;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * What the endpoint shows.
 *
 * @param showValues When to show what is in jobs: payloads, results, errors, metadata and unique keys.
 * @param roles Roles of whom a user needs one to be shown values when authorized; any authenticated user by default.
 */
@ConfigurationProperties("management.endpoint.forgecluster")
public record ClusterEndpointProperties(
        @DefaultValue("never") Show showValues,
        @DefaultValue Set<String> roles) {}

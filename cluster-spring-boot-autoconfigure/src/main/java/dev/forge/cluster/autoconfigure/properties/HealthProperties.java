package dev.forge.cluster.autoconfigure.properties;

import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * What the health component reports.
 *
 * @param readinessIncludesDatabase Whether a node without its database is not ready.
 */
public record HealthProperties(@DefaultValue("true") boolean readinessIncludesDatabase) {}

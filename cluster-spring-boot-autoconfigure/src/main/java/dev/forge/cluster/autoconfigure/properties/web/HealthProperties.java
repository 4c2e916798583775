// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Health and readiness.
 *
 * @param readinessIncludesDatabase Whether a node that cannot reach the database is not ready.
 */
public record HealthProperties(@DefaultValue("true") boolean readinessIncludesDatabase) {}

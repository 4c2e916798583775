// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * The HTTP API for operators, and what it has in common with the dashboard: a {@link dev.forge.cluster.autoconfigure.operations.web.Site}
 * turns a request value into a response value and knows no web stack. Two thin adapters connect sites to Spring MVC and to WebFlux.
 * Authentication is the application's: a site only asks which authorities a visitor has.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.operations.web;

import org.jspecify.annotations.NullMarked;

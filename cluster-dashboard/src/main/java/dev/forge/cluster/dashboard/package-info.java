// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * The dashboard: a page of static files and a JSON API that it reads.
 *
 * <p>{@link dev.forge.cluster.dashboard.Dashboard} turns a request value into a response value and knows no web stack. Two thin
 * adapters connect it to Spring MVC and to WebFlux. Authentication is the application's: the dashboard only asks which authorities
 * a visitor has.
 */
@NullMarked
package dev.forge.cluster.dashboard;

import org.jspecify.annotations.NullMarked;

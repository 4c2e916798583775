// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * The dashboard: a page of static files that reads the HTTP API for operators, which is served below the page, too.
 *
 * <p>{@link dev.forge.cluster.dashboard.Dashboard} is a site of {@code dev.forge.cluster.autoconfigure.operations.web}, which connects it
 * to the web stacks and to the security of the application.
 */
@NullMarked
package dev.forge.cluster.dashboard;

import org.jspecify.annotations.NullMarked;

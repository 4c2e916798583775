// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * What operators see and do: the dispatch of requests to resources, and the checks of their parameters. Adapters, such as the Actuator
 * endpoint and the HTTP API, use {@link dev.forge.cluster.autoconfigure.operations.ClusterOperations}, and only translate requests and
 * results.
 *
 * <p>{@code resource} has the resources, {@code json} turns values of the Java API into JSON and decides which of them are masked,
 * {@code web} is the HTTP API.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.operations;

import org.jspecify.annotations.NullMarked;

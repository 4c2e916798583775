// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.node.Node;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * The node of this application with the connections and threads it runs on. {@link ClusterLifecycle} starts and stops them together.
 *
 * @param control the connections for the cluster's own statements
 * @param scheduler runs the loops of the node
 * @param events publishes the events of the node
 * @param node the node
 * @param keepAlive keeps the JVM alive while the node is a member
 */
public record NodeRuntime(
        ControlConnections control,
        ThreadPoolTaskScheduler scheduler,
        EventThread events,
        Node node,
        KeepAliveThread keepAlive) {}

/**
 * Nodes: registration, heartbeats, detection of dead nodes, the session connection, and the order in which components and loops
 * start, drain and stop. Other slices use {@link dev.forge.cluster.internal.node.Node} and implement {@link
 * dev.forge.cluster.internal.node.NodeComponent}.
 */
@NullMarked
package dev.forge.cluster.internal.node;

import org.jspecify.annotations.NullMarked;

/**
 * Membership: registration, heartbeats, detection of dead nodes, the session connection, and {@link
 * dev.forge.cluster.internal.node.Node}, which alone decides which loops run and in what order they start and stop.
 */
@NullMarked
package dev.forge.cluster.internal.node;

import org.jspecify.annotations.NullMarked;

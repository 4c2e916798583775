/**
 * Threads: the loops that make a process a member of the cluster, and {@link
 * dev.forge.cluster.internal.engine.Node}, which alone decides which of them run and in what order they stop.
 *
 * <p>A loop's pass is a plain method that a test can call without a thread. No class here knows SQL.
 */
@NullMarked
package dev.forge.cluster.internal.engine;

import org.jspecify.annotations.NullMarked;

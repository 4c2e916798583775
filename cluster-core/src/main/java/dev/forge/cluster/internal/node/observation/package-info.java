/** Observation of other nodes: reads their rows and locks, and decides which have joined, left, become stale or died. */
@NullMarked
package dev.forge.cluster.internal.node.observation;

import org.jspecify.annotations.NullMarked;

/**
 * Properties of the node: database, identity, membership, leadership, locks, start and shutdown.
 * {@link dev.forge.cluster.autoconfigure.properties.ClusterProperties} contains all of them.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.properties.node;

import org.jspecify.annotations.NullMarked;

/** Cluster singletons: long-running methods of which a fixed number of instances run in the cluster. */
@NullMarked
package dev.forge.cluster.daemon;

import org.jspecify.annotations.NullMarked;

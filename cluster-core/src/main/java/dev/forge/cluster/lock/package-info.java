/** Cluster-wide locks with a lease and a fencing token. */
@NullMarked
package dev.forge.cluster.lock;

import org.jspecify.annotations.NullMarked;

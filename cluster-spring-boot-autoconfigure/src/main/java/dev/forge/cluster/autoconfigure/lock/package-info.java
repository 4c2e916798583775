/** Auto-configuration of cluster-wide locks. */
@NullMarked
package dev.forge.cluster.autoconfigure.lock;

import org.jspecify.annotations.NullMarked;

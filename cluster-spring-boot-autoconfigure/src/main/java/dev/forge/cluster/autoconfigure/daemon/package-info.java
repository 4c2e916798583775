/** Auto-configuration of daemons. */
@NullMarked
package dev.forge.cluster.autoconfigure.daemon;

import org.jspecify.annotations.NullMarked;

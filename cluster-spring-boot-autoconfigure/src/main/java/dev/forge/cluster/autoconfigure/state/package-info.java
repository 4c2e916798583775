/** Auto-configuration of shared state. */
@NullMarked
package dev.forge.cluster.autoconfigure.state;

import org.jspecify.annotations.NullMarked;

/** Meters and observations. */
@NullMarked
package dev.forge.cluster.autoconfigure.metrics;

import org.jspecify.annotations.NullMarked;

/** Loggers for all slices. */
@NullMarked
package dev.forge.cluster.internal.log;

import org.jspecify.annotations.NullMarked;

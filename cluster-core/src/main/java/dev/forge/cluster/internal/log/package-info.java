/** Logging that every layer may use. */
@NullMarked
package dev.forge.cluster.internal.log;

import org.jspecify.annotations.NullMarked;

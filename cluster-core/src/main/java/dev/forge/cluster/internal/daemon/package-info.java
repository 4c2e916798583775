/** Daemons: election of their instances, start, stop and restart. */
@NullMarked
package dev.forge.cluster.internal.daemon;

import org.jspecify.annotations.NullMarked;

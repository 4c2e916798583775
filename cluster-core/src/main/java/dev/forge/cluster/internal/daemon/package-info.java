/** Daemons: election and placement of instances, supervision of their methods, and their rows. */
@NullMarked
package dev.forge.cluster.internal.daemon;

import org.jspecify.annotations.NullMarked;

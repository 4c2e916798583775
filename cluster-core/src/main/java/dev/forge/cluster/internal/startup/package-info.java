/** Startup actions that complete once per cluster. */
@NullMarked
package dev.forge.cluster.internal.startup;

import org.jspecify.annotations.NullMarked;

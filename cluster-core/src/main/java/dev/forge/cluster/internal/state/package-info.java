/** Shared state with a time to live. */
@NullMarked
package dev.forge.cluster.internal.state;

import org.jspecify.annotations.NullMarked;

/** Results of handlers that complete later: futures and reactive types. */
@NullMarked
package dev.forge.cluster.internal.async;

import org.jspecify.annotations.NullMarked;

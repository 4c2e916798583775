/**
 * Building blocks without a table of their own: loops, pacing, backoff, locks, names, error texts and the diagnostic
 * context. A loop's pass is a plain method that a test can call without a thread.
 */
@NullMarked
package dev.forge.cluster.internal.runtime;

import org.jspecify.annotations.NullMarked;

/**
 * Building blocks without a table: loops, pacing, backoff, isolation of rows that fail, names, payloads, error texts and the
 * diagnostic context. A loop's pass is a plain method that a test can call without a thread.
 */
@NullMarked
package dev.forge.cluster.internal.runtime;

import org.jspecify.annotations.NullMarked;

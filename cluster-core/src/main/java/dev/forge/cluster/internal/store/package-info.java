/**
 * Rows: every SQL statement of the library, each beside the method that runs it.
 *
 * <p>Database time decides whatever nodes share: {@code clock_timestamp()} for leases and deadlines, {@code now()}
 * elsewhere. Every write that a stale owner could make is guarded in its WHERE clause by a claim epoch, a term or a
 * counter; zero rows is an answer, not an exception.
 */
@NullMarked
package dev.forge.cluster.internal.store;

import org.jspecify.annotations.NullMarked;

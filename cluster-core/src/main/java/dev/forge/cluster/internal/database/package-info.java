/**
 * The schema, its migration, the connections that the cluster opens beside the application's pool, the transactions of callers, and
 * the classification of failures.
 *
 * <p>Database time decides everything that nodes share: {@code clock_timestamp()} for leases and deadlines, {@code now()}
 * elsewhere. Every write that a stale owner could make is guarded in its WHERE clause by a claim epoch, a term or a
 * counter; zero updated rows is a result, not an exception.
 */
@NullMarked
package dev.forge.cluster.internal.database;

import org.jspecify.annotations.NullMarked;

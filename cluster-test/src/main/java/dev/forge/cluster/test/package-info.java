/**
 * Tests on the real thing: a real PostgreSQL, real processes, real network faults.
 *
 * <p>{@link dev.forge.cluster.test.ClusterPostgres @ClusterPostgres} on a test class gives it a database of its own.
 * {@link dev.forge.cluster.test.AppProcess} runs an application as a process that can be frozen and killed, {@link
 * dev.forge.cluster.test.TcpProxy} stands between it and the database.
 */
@NullMarked
package dev.forge.cluster.test;

import org.jspecify.annotations.NullMarked;

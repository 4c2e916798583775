/**
 * Support for tests with a real PostgreSQL, real processes and real network faults.
 *
 * <p>{@link dev.forge.cluster.test.postgres.ClusterPostgres @ClusterPostgres} on a test class gives it a database of its own.
 * {@link dev.forge.cluster.test.process.AppProcess} runs an application as a process that can be frozen and killed, {@link
 * dev.forge.cluster.test.postgres.TcpProxy} is a network between it and the database that can fail. {@link
 * dev.forge.cluster.test.process.ClusterProcessTest @ClusterProcessTest} starts and ends both for each test method.
 */
@NullMarked
package dev.forge.cluster.test;

import org.jspecify.annotations.NullMarked;

/**
 * A PostgreSQL for tests, and the ways in which it can fail: {@link
 * dev.forge.cluster.test.postgres.ClusterPostgres @ClusterPostgres} gives a test class a database, {@link
 * dev.forge.cluster.test.postgres.TcpProxy} cuts and delays its connections. Needs neither a cluster nor Spring.
 */
@NullMarked
package dev.forge.cluster.test.postgres;

import org.jspecify.annotations.NullMarked;

/**
 * The application as real processes that a test kills, freezes and stops. {@link
 * dev.forge.cluster.test.process.ClusterProcessTest @ClusterProcessTest} starts several for each test method, {@link
 * dev.forge.cluster.test.process.AppProcess} is one of them.
 */
@NullMarked
package dev.forge.cluster.test.process;

import org.jspecify.annotations.NullMarked;

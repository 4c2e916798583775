/** Benchmarks of Forge Cluster. Figures depend on the machine, so compare only figures of the same run. */
@NullMarked
package dev.forge.cluster.benchmarks;

import org.jspecify.annotations.NullMarked;

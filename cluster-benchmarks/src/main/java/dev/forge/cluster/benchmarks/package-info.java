/** Benchmarks. Absolute figures depend on the machine, so compare figures of one run only. */
@NullMarked
package dev.forge.cluster.benchmarks;

import org.jspecify.annotations.NullMarked;

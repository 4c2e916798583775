/** Measurements. Absolute figures depend on the machine; compare within one run. */
@NullMarked
package dev.forge.cluster.benchmarks;

import org.jspecify.annotations.NullMarked;

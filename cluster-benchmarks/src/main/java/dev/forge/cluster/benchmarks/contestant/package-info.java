/** The schedulers and reference programs that the benchmarks compare. */
@NullMarked
package dev.forge.cluster.benchmarks.contestant;

import org.jspecify.annotations.NullMarked;

/** Measures and reports: rounds, CPU time, the server and the figures of a run. */
@NullMarked
package dev.forge.cluster.benchmarks.measure;

import org.jspecify.annotations.NullMarked;

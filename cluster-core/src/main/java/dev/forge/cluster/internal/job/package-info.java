/**
 * Jobs. The packages below follow the life of a job: {@code enqueue}, {@code claim}, {@code run}, {@code finish}; {@code follow} does
 * what an end sets off, {@code upkeep} what the leader does for all jobs, {@code operate} what operators ask. All of them stand on
 * {@code row}, which alone writes the table, and {@code handler}, the handlers of this node. This package assembles them.
 *
 * <p>A claim is a row with a node and an epoch. Each statement that ends, extends or returns a claim names both, and its
 * update count decides. A handler's result therefore counts only if its node still owned the claim.
 */
@NullMarked
package dev.forge.cluster.internal.job;

import org.jspecify.annotations.NullMarked;

/**
 * Jobs. The packages below follow the life of a job: {@code enqueue}, {@code claim}, {@code run}, {@code finish}. {@code follow}
 * releases what waits for an end, {@code upkeep} recovers and deletes, {@code operate} serves operators, {@code history} counts. All of
 * them use {@code row}, the statements that write jobs, and most use {@code handler}, the handlers of this node. This package
 * assembles them.
 *
 * <p>A claim is a row with a node and an epoch. Each statement that ends, extends or returns a claim names both, and its
 * update count decides. A handler's result therefore counts only if its node still owned the claim.
 */
@NullMarked
package dev.forge.cluster.internal.job;

import org.jspecify.annotations.NullMarked;

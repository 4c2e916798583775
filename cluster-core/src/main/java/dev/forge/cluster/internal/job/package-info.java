/**
 * Jobs: enqueueing, claiming, execution, completion, recovery and purge. This package has the engine that other slices use; the
 * packages below it depend one way: {@code worker} on {@code handler} on {@code store}.
 *
 * <p>A claim is a row with a node and an epoch. Each statement that ends, extends or returns a claim names both, and its
 * update count decides. A handler's result therefore counts only if its node still owned the claim.
 */
@NullMarked
package dev.forge.cluster.internal.job;

import org.jspecify.annotations.NullMarked;

/**
 * Runs jobs on this node: searches queues, claims, calls handlers, renews leases, and writes how attempts ended.
 *
 * <p>{@link dev.forge.cluster.internal.job.worker.Worker} is the entrance. A {@code Lane} is an executor with its slots; the {@code
 * Claimer} fills the lanes, {@code JobExecution} makes an attempt, and the {@code Finisher} writes results in batches.
 */
@NullMarked
package dev.forge.cluster.internal.job.worker;

import org.jspecify.annotations.NullMarked;

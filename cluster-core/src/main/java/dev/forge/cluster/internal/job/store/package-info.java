/**
 * The statements on {@code forge_jobs}: enqueueing, queues, claims, ends of claims, recovery, reports and retention.
 */
@NullMarked
package dev.forge.cluster.internal.job.store;

import org.jspecify.annotations.NullMarked;

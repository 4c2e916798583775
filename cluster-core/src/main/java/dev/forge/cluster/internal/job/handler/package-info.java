/**
 * Handlers of jobs as the application declares them, the claimed job as handlers of the cluster see it, and the interfaces by which
 * other slices measure or own jobs. Starts no thread and executes no statement.
 */
@NullMarked
package dev.forge.cluster.internal.job.handler;

import org.jspecify.annotations.NullMarked;

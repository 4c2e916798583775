/**
 * What operators see and do: resources with their descriptors, checks of requests, and the sanitizing of values. The Actuator endpoint
 * and other adapters use {@link dev.forge.cluster.autoconfigure.operations.ClusterOperations}, and only translate requests and
 * results.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.operations;

import org.jspecify.annotations.NullMarked;

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/**
 * Common type of the Spring events that the cluster publishes, such as {@link dev.forge.cluster.node.NodeJoined}, {@link
 * dev.forge.cluster.leader.LeadershipAcquired} and {@link dev.forge.cluster.job.observe.JobFailed}. A listener for this type receives all
 * of them.
 */
public interface ClusterEvent {}

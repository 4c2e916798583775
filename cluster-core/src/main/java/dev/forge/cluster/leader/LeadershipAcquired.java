package dev.forge.cluster.leader;

import dev.forge.cluster.ClusterEvent;

/**
 * Spring event: this node leads from now on.
 *
 * @param role what it leads
 * @param term the number of this leadership, larger than any before
 */
public record LeadershipAcquired(String role, long term) implements ClusterEvent {}

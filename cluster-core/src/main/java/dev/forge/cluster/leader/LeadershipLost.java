package dev.forge.cluster.leader;

import dev.forge.cluster.ClusterEvent;

/**
 * Spring event: this node no longer leads, or can no longer be sure that it does.
 *
 * @param role what it led
 * @param term the number of the leadership that ended
 */
public record LeadershipLost(String role, long term) implements ClusterEvent {}

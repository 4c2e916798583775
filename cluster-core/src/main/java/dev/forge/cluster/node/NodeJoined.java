package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node is there.
 *
 * @param id of that membership
 * @param name what people call the node
 */
public record NodeJoined(UUID id, String name) implements ClusterEvent {}

package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node was declared dead; what it held is free.
 *
 * @param id of that membership
 * @param name what people call the node
 */
public record NodeDied(UUID id, String name) implements ClusterEvent {}

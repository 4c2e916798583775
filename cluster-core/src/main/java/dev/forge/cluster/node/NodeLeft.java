package dev.forge.cluster.node;

import dev.forge.cluster.ClusterEvent;
import java.util.UUID;

/**
 * Spring event: another node has left in good order.
 *
 * @param id of that membership
 * @param name what people call the node
 */
public record NodeLeft(UUID id, String name) implements ClusterEvent {}

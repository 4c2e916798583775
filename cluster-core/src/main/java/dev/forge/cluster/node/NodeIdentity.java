package dev.forge.cluster.node;

/**
 * Who a node is, across restarts.
 *
 * @param id stable and unique among live nodes; shown as {@code node_key}
 * @param name for people; need not be unique
 */
public record NodeIdentity(String id, String name) {

    public NodeIdentity {
        if (id.isBlank() || name.isBlank()) {
            throw new IllegalArgumentException(
                    "a node needs an id and a name, got id '%s', name '%s'".formatted(id, name));
        }
    }
}

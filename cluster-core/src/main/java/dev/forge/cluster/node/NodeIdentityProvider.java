package dev.forge.cluster.node;

/**
 * Names this node. A bean of this type replaces the default, which takes {@code forge.cluster.node.id} and {@code
 * forge.cluster.node.name} and fills gaps with the host's name.
 */
@FunctionalInterface
public interface NodeIdentityProvider {

    /** Called each time the node joins the cluster. */
    NodeIdentity identity();
}

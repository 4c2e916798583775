package dev.forge.cluster;

import dev.forge.cluster.node.NodeRole;

/** This node may not change the cluster: it is an observer, or lacks the role {@link NodeRole#FUNCTION}. */
public class MutationRefusedException extends RuntimeException {

    public MutationRefusedException(String message) {
        super(message);
    }
}

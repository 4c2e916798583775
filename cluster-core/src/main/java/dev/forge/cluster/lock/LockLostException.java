package dev.forge.cluster.lock;

import dev.forge.cluster.ClusterException;

/**
 * Thrown after an action whose lock was lost while it ran: the lease could not be renewed in time, or the node was declared
 * dead. Another node may have held the lock at the same time.
 */
public class LockLostException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public LockLostException(String message) {
        super(message);
    }
}

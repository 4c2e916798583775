// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.lock;

import dev.forge.cluster.ClusterException;

/**
 * Thrown after an action whose lock was lost while it ran, or of which that is unknown because the database could not be reached: the
 * lease could not be renewed in time, the node was declared dead, or it has left the cluster. Another node may have held the
 * lock at the same time.
 */
public class LockLostException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public LockLostException(String message) {
        super(message);
    }

    public LockLostException(String message, Throwable cause) {
        super(message, cause);
    }
}

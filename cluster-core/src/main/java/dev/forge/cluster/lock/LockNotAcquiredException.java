// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.lock;

import dev.forge.cluster.ClusterException;

/** Thrown when a lock was not free in time. The message names the lock and the time waited. */
public class LockNotAcquiredException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public LockNotAcquiredException(String message) {
        super(message);
    }
}

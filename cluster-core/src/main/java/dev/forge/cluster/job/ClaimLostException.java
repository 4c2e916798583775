// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ClusterException;

/**
 * Thrown when a job no longer belongs to this node: it was cancelled, or another node took it over after the lease had expired.
 * All further results of the handler are discarded; it should return.
 */
public class ClaimLostException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public ClaimLostException(String message) {
        super(message);
    }
}

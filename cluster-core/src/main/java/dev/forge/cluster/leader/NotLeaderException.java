// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import dev.forge.cluster.ClusterException;

/** Thrown when a fenced write was rolled back because this node does not lead, or not in the term in which the work began. */
public class NotLeaderException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public NotLeaderException(String message) {
        super(message);
    }
}

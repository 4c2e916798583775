// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import dev.forge.cluster.node.NodeRole;

/** Thrown when a node may not change the cluster because it is an observer or lacks the role {@link NodeRole#FUNCTION}. */
public class MutationRefusedException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public MutationRefusedException(String message) {
        super(message);
    }
}

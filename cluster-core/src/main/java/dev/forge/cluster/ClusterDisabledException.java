// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/** Thrown by calls that need the cluster while {@code forge.cluster.enabled} is false. Nothing was read or written. */
public class ClusterDisabledException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public ClusterDisabledException(String message) {
        super(message);
    }
}

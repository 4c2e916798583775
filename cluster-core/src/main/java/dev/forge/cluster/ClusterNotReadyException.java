// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/**
 * Thrown by calls that arrive before this node can serve them. Handlers are known after all beans have been created, and the
 * node joins the cluster after that. Nothing was written. Constructors and {@code @PostConstruct} methods are too early; an
 * {@code ApplicationRunner} and a listener for {@code ApplicationReadyEvent} are not.
 */
public class ClusterNotReadyException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public ClusterNotReadyException(String message) {
        super(message);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/**
 * Thrown when a call would change the cluster's tables while only a transaction of another DataSource is active, and {@code
 * forge.cluster.foreign-transactions} refuses that. Also thrown in a transaction of the cluster's DataSource that the call cannot
 * join, because its transaction manager has no transaction synchronization. Nothing was written.
 */
public class ForeignTransactionException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public ForeignTransactionException(String message) {
        super(message);
    }
}

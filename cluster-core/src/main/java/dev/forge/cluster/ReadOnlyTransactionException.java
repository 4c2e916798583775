// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/** Thrown when a call would change the cluster's tables inside a read-only transaction. Nothing was written. */
public class ReadOnlyTransactionException extends ClusterException {

    private static final long serialVersionUID = 1L;

    public ReadOnlyTransactionException(String message) {
        super(message);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.ReadOnlyTransactionException;
import javax.sql.DataSource;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** The transaction that a call of the API joins. */
public final class CallerTransaction {

    private CallerTransaction() {}

    /**
     * Rejects a change in a read-only transaction. The database would reject it, too, but with an error that names no method and
     * ends the caller's transaction.
     *
     * @param call the method of the API, for the message
     * @param application the data source that the change is written to; transactions of other data sources do not count
     */
    public static void requireWritable(String call, DataSource application) {
        if (TransactionSynchronizationManager.hasResource(application)) {
            requireWritable(call);
        }
    }

    /** Rejects a change in a read-only transaction that is known to use the cluster's data source. */
    public static void requireWritable(String call) {
        if (TransactionSynchronizationManager.isActualTransactionActive()
                && TransactionSynchronizationManager.isCurrentTransactionReadOnly()) {
            throw new ReadOnlyTransactionException(
                    ("%s: the transaction %sis read-only. Remove readOnly = true from its"
                                    + " @Transactional, or call this from a method with @Transactional(propagation = REQUIRES_NEW).")
                            .formatted(call, name()));
        }
    }

    private static String name() {
        String name = TransactionSynchronizationManager.getCurrentTransactionName();
        return name == null ? "" : "'" + name + "' ";
    }
}

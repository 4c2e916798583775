package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.ReadOnlyTransactionException;
import javax.sql.DataSource;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** The transaction that a call of the API joins. */
public final class CallerTransaction {

    private CallerTransaction() {}

    /**
     * Rejects a change that the database would reject with an error that names no method, and which would end the caller's
     * transaction.
     *
     * @param call the method of the API, for people
     * @param application the data source that the change is written to; a transaction of another one does not matter
     */
    public static void requireWritable(String call, DataSource application) {
        if (TransactionSynchronizationManager.hasResource(application)) {
            requireWritable(call);
        }
    }

    /** The same where the transaction is known to be one of the cluster's data source. */
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

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Follows each transaction of a data source from its begin, before anybody can register a callback. */
public final class BegunTransactions implements TransactionExecutionListener {

    private final DataSource source;

    /** @param source the data source of the transaction managers that call this listener */
    public BegunTransactions(DataSource source) {
        this.source = source;
    }

    @Override
    public void afterBegin(TransactionExecution transaction, @Nullable Throwable failure) {
        Object bound = TransactionSynchronizationManager.getResource(source);
        if (failure == null
                && bound != null
                && transaction.isNewTransaction()
                && TransactionSynchronizationManager.isSynchronizationActive()) {
            BoundTransaction.follow(source, bound, true);
        }
    }
}

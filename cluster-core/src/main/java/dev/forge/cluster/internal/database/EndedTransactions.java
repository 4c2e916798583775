// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Knows which transactions of a data source have ended. While Spring tells others of the end, the connection is still bound, and looks
 * as it did before.
 */
public final class EndedTransactions implements TransactionExecutionListener {

    private static final ThreadLocal<Set<Object>> ENDING =
            ThreadLocal.withInitial(() -> Collections.newSetFromMap(new WeakHashMap<>()));

    private final DataSource source;

    /** @param source the data source of the transaction managers that call this listener */
    public EndedTransactions(DataSource source) {
        this.source = source;
    }

    @Override
    public void beforeCommit(TransactionExecution transaction) {
        ending(transaction);
    }

    @Override
    public void beforeRollback(TransactionExecution transaction) {
        ending(transaction);
    }

    private void ending(TransactionExecution transaction) {
        Object bound = TransactionSynchronizationManager.getResource(source);
        if (bound != null && transaction.isNewTransaction()) {
            ENDING.get().add(bound);
        }
    }

    /** Returns whether the transaction of a bound connection has ended. */
    static boolean contains(@Nullable Object bound) {
        // Until Spring tells of the end, the transaction is open: an entity manager may be writing its changes.
        return bound != null && ENDING.get().contains(bound) && isToldOfEnd();
    }

    private static boolean isToldOfEnd() {
        return StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getClassName()
                                .equals("org.springframework.transaction.support.TransactionSynchronizationUtils")
                        && frame.getMethodName().startsWith("invokeAfter")));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Runs actions after the caller's transaction has committed, and not at all if it, or a part of it with a savepoint, rolls back. */
public final class AfterCommit {

    private AfterCommit() {}

    /** Runs the action after the commit; now if there is no transaction. */
    public static void run(Runnable action) {
        if (TransactionSynchronizationManager.isSynchronizationActive()
                && TransactionSynchronizationManager.isActualTransactionActive()) {
            TransactionSynchronizationManager.registerSynchronization(new Registered(action));
        } else {
            action.run();
        }
    }

    /** An action that a rollback to a savepoint cancels, unless the savepoint is later than what the action belongs to. */
    private static final class Registered implements TransactionSynchronization {

        private final Runnable action;
        private final Set<Object> laterSavepoints = Collections.newSetFromMap(new IdentityHashMap<>(0));
        private boolean rolledBack;

        Registered(Runnable action) {
            this.action = action;
        }

        @Override
        public void savepoint(Object savepoint) {
            laterSavepoints.add(savepoint);
        }

        @Override
        public void savepointRollback(Object savepoint) {
            rolledBack |= !laterSavepoints.contains(savepoint);
        }

        @Override
        public void afterCommit() {
            if (!rolledBack) {
                action.run();
            }
        }
    }
}

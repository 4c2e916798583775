// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.handler.JobHandler;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.TransactionDefinition;

/**
 * Knows in which transactions the row of a job may change while its handler runs. Under READ COMMITTED the last statement of the
 * transaction sees the change; under REPEATABLE READ and SERIALIZABLE the transaction would fail. A handler that declares no isolation
 * level has that of its connections, which its first transaction shows, and then one of many.
 */
final class HandlerIsolation {

    /** How many transactions of a handler end before one of them shows its level again. */
    private static final int BETWEEN_LOOKS = 1_000;

    private record Level(boolean isReadCommitted, AtomicInteger transactions) {}

    private final Map<String, Level> levels = new ConcurrentHashMap<>();

    /**
     * Returns whether each statement of the current transaction of a handler sees what others have committed.
     *
     * @param look asks the transaction, which costs a round trip
     */
    boolean isReadCommitted(JobHandler handler, BooleanSupplier look) {
        Boolean declared = declared(handler);
        if (declared != null) {
            return declared;
        }
        Level level = levels.get(handler.name());
        if (level == null || level.transactions.incrementAndGet() % BETWEEN_LOOKS == 0) {
            boolean seen = look.getAsBoolean();
            if (level == null || level.isReadCommitted != seen) {
                levels.put(handler.name(), new Level(seen, new AtomicInteger()));
            }
            return seen;
        }
        return level.isReadCommitted;
    }

    /** Called when a transaction of a handler failed because of a change that it did not see: its level may have changed. */
    void forget(JobHandler handler) {
        levels.remove(handler.name());
    }

    /** Returns whether the row of a job may change while its handler runs. */
    boolean allowsChanges(JobHandler handler) {
        if (handler.target().transaction() == null) {
            return true;
        }
        Boolean declared = declared(handler);
        Level level = levels.get(handler.name());
        return declared != null ? declared : level != null && level.isReadCommitted;
    }

    private static @Nullable Boolean declared(JobHandler handler) {
        JobHandler.Transaction transaction = handler.target().transaction();
        int declared = transaction == null
                ? TransactionDefinition.ISOLATION_DEFAULT
                : transaction.definition().getIsolationLevel();
        return switch (declared) {
            case TransactionDefinition.ISOLATION_READ_COMMITTED, TransactionDefinition.ISOLATION_READ_UNCOMMITTED ->
                true;
            case TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE -> false;
            default -> null;
        };
    }
}

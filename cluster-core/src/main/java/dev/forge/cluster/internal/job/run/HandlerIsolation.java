// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.springframework.transaction.TransactionDefinition;

/**
 * Knows in which transactions the row of a job may change while its handler runs. Under READ COMMITTED the last statement of the
 * transaction sees the change; under REPEATABLE READ and SERIALIZABLE the transaction would fail. A handler that declares no isolation
 * level has that of its connections, which its first transaction shows, and then one of many.
 *
 * <p>A transaction of a handler that declares one of the latter levels must really have it. Drivers set the level on the session, and
 * a transaction pooler may run the transaction in another session.
 */
public final class HandlerIsolation {

    /** The levels of PostgreSQL, the weakest first. Its READ UNCOMMITTED is READ COMMITTED. */
    private static final List<String> LEVELS =
            List.of("read uncommitted", "read committed", "repeatable read", "serializable");

    private static final int REPEATABLE_READ = 2;

    /** How many transactions of a handler end before one of them shows its level again. */
    private static final int BETWEEN_LOOKS = 1_000;

    private record Level(boolean isReadCommitted, AtomicInteger transactions) {}

    private final Map<String, Level> levels = new ConcurrentHashMap<>();

    /**
     * Returns whether each statement of the current transaction of a handler sees what others have committed.
     *
     * @param look asks the transaction for its level, which costs a round trip
     * @throws IllegalStateException if the transaction has a weaker level than the handler declares
     */
    boolean isReadCommitted(JobHandler handler, Supplier<String> look) {
        int declared = declared(handler);
        if (declared >= REPEATABLE_READ) {
            requireLevel(declared, look.get());
            return false;
        }
        if (declared >= 0) {
            return true;
        }
        Level level = levels.get(handler.name());
        if (level == null || level.transactions.incrementAndGet() % BETWEEN_LOOKS == 0) {
            boolean seen = LEVELS.indexOf(look.get()) < REPEATABLE_READ;
            if (level == null || level.isReadCommitted != seen) {
                levels.put(handler.name(), new Level(seen, new AtomicInteger()));
            }
            return seen;
        }
        return level.isReadCommitted;
    }

    private static void requireLevel(int declared, String actual) {
        if (LEVELS.indexOf(actual) < declared) {
            throw new IllegalStateException(
                    "The transaction of the handler is %s, not %s as declared, and was rolled back. A pooler in transaction mode loses the level: set it with the first statement of the transaction."
                            .formatted(
                                    actual.toUpperCase(Locale.ROOT),
                                    LEVELS.get(declared).toUpperCase(Locale.ROOT)));
        }
    }

    /** Called when a transaction of a handler failed because of a change that it did not see: its level may have changed. */
    void forget(JobHandler handler) {
        levels.remove(handler.name());
    }

    /** Returns whether the row of a job may change while its handler runs. */
    public boolean allowsChanges(JobHandler handler) {
        if (handler.target().transaction() == null) {
            return true;
        }
        int declared = declared(handler);
        Level level = levels.get(handler.name());
        return declared >= 0 ? declared < REPEATABLE_READ : level != null && level.isReadCommitted;
    }

    /** Returns the place of the declared level in {@link #LEVELS}; -1 if the handler declares none. */
    private static int declared(JobHandler handler) {
        JobHandler.Transaction transaction = handler.target().transaction();
        if (transaction == null) {
            return -1;
        }
        return switch (transaction.definition().getIsolationLevel()) {
            case TransactionDefinition.ISOLATION_READ_UNCOMMITTED -> 0;
            case TransactionDefinition.ISOLATION_READ_COMMITTED -> 1;
            case TransactionDefinition.ISOLATION_REPEATABLE_READ -> REPEATABLE_READ;
            case TransactionDefinition.ISOLATION_SERIALIZABLE -> 3;
            default -> -1;
        };
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import dev.forge.cluster.internal.audit.Audit.Author;
import dev.forge.cluster.internal.database.CallerTransaction;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/** Changes that are recorded if an operator makes them, on the connections of one data source. */
public final class AuditedChanges {

    private final Audit audit;
    private final AuditStore store;
    private final CallerTransaction caller;

    AuditedChanges(Audit audit, AuditStore store, CallerTransaction caller) {
        this.audit = audit;
        this.store = store;
        this.caller = caller;
    }

    /**
     * Makes a change, and records it in the same transaction if it has changed anything.
     *
     * @param change returns whether it has changed anything
     */
    public boolean record(Operation operation, BooleanSupplier change) {
        return record(operation, change::getAsBoolean, changed -> changed ? 1 : 0);
    }

    /**
     * Makes a change, and records it in the same transaction if it has changed anything. The transaction is the caller's or, if there
     * is none, one of its own.
     *
     * @param change makes the change; its exceptions roll back a transaction of its own
     * @param count the number of things that it has changed
     */
    public <T> T record(Operation operation, Supplier<T> change, ToLongFunction<? super T> count) {
        Author author = audit.author();
        if (author == null) {
            return caller.run(change);
        }
        Recorded<T> recorded = caller.inOne(() -> recorded(author, operation, change, count));
        caller.afterCommit(() -> report(author, operation, recorded.count));
        return recorded.result;
    }

    private record Recorded<T>(T result, long count) {}

    private <T> Recorded<T> recorded(
            Author author, Operation operation, Supplier<T> change, ToLongFunction<? super T> count) {
        T result = change.get();
        long changed = count.applyAsLong(result);
        if (changed > 0) {
            store.insert(author, operation, changed, null);
        }
        return new Recorded<>(result, changed);
    }

    private void report(Author author, Operation operation, long count) {
        if (count > 0) {
            audit.report(author, operation, count);
        }
    }

    /** Begins a call that commits several transactions. */
    public BulkCall begin(Operation operation) {
        return new BulkCall(audit.author(), operation);
    }

    /** A call that commits several transactions. Each has an entry of its own, so that the entries are true after a crash, too. */
    public final class BulkCall {

        private final @Nullable Author author;
        private final Operation operation;
        private final @Nullable UUID id;

        private BulkCall(@Nullable Author author, Operation operation) {
            this.author = author;
            this.operation = operation;
            this.id = author == null ? null : UUID.randomUUID();
        }

        /** Records a part of the changes, in the transaction that makes them. */
        public void changed(int count) {
            if (author != null && count > 0) {
                store.insert(author, operation, count, id);
            }
        }

        /** Reports the whole call. */
        public void end(long count) {
            if (author != null) {
                report(author, operation, count);
            }
        }
    }
}

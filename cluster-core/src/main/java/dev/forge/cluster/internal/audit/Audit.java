// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import dev.forge.cluster.audit.OperationAudited;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.audit.OperatorSource;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** Knows who operates the cluster on the current thread, and reports what was recorded. One for each node. */
public final class Audit {

    private static final Logger log = GuardedLogger.of(Audit.class);

    private final Schema schema;
    private final OperatorSource operators;
    private final Consumer<? super OperationAudited> events;

    // Not static: nodes of two clusters in one process are operated apart. Not inheritable: a thread that the call of
    // an operator happens to start, such as one of a worker, is not the operator's.
    @SuppressWarnings("ThreadLocalUsage")
    private final ThreadLocal<@Nullable Author> author = new ThreadLocal<>();

    /**
     * Who makes a change, and why.
     *
     * @param reason null: no reason is given
     */
    record Author(Operator operator, @Nullable String reason) {}

    /**
     * Creates the audit of a node.
     *
     * @param operators asked outside of {@link #as}
     * @param events receives recorded operations after their commit; must neither block nor throw
     */
    public Audit(Schema schema, OperatorSource operators, Consumer<? super OperationAudited> events) {
        this.schema = schema;
        this.operators = operators;
        this.events = events;
    }

    /** Returns the audit of changes that are made with connections of a data source. */
    public AuditedChanges on(DataSource source) {
        return new AuditedChanges(this, new AuditStore(schema, source), new CallerTransaction(source));
    }

    /** See {@link dev.forge.cluster.audit.AuditTrail#as}. */
    <T extends @Nullable Object> T as(Operator operator, @Nullable String reason, Supplier<T> operation) {
        Author outer = author.get();
        author.set(new Author(operator, reason));
        try {
            return operation.get();
        } finally {
            if (outer == null) {
                author.remove();
            } else {
                author.set(outer);
            }
        }
    }

    /** Returns who makes changes on this thread; null: nobody who is known. */
    @Nullable
    Author author() {
        Author known = author.get();
        return known != null
                ? known
                : operators
                        .current()
                        .map(operator -> new Author(operator, null))
                        .orElse(null);
    }

    /** Logs and publishes a recorded operation; to be called after its commit. */
    void report(Author by, Operation operation, long count) {
        Operator operator = by.operator;
        String target = String.valueOf(operation.target());
        String detail = operation.detail() == null ? null : String.valueOf(operation.detail());
        String address = operator.address();
        log.info(
                "Operation {} on {}{}: {} changed, by {} ({}{}){}",
                operation.action(),
                Names.printable(target),
                detail == null ? "" : ", " + Names.printable(detail),
                count,
                Names.printable(operator.name()),
                EnumText.hyphenated(operator.source()),
                address == null ? "" : ", " + Names.printable(address),
                by.reason == null ? "" : ", reason: " + Names.printable(by.reason));
        events.accept(new OperationAudited(operator, operation.action(), target, detail, count, by.reason));
    }
}

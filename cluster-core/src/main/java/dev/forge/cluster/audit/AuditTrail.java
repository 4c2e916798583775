// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import dev.forge.cluster.Page;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Records who operates the cluster: who cancelled a job, paused a name, changed a limit or drained a node.
 *
 * <p>An operation that changes something adds an entry in the same transaction, if its operator is known: inside of {@link #as}, or
 * from an {@link OperatorSource}. An operation without a known operator, or one that changes nothing, adds none. After the commit
 * each recorded operation is logged and published as {@link OperationAudited}.
 *
 * <p>Submissions of work (enqueueing jobs, opening batches, starting workflows) are not recorded.
 */
public interface AuditTrail {

    /**
     * Calls an operation for an operator. Operations of the API that are called inside, on this thread, are recorded with the
     * operator and the reason. Other threads, such as those of job handlers, do not inherit the operator. Calls can be nested: the
     * innermost one counts.
     *
     * <pre>{@code
     * trail.as(new Operator("alice", "192.0.2.7", AuditSource.DASHBOARD), "duplicate order", () -> jobs.cancel(id));
     * }</pre>
     *
     * @param reason why; the trail keeps its first 997 characters; null: no reason is given
     * @return the result of the operation
     */
    <T extends @Nullable Object> T as(Operator operator, @Nullable String reason, Supplier<T> operation);

    /** Returns the newest entries; see {@link #list(AuditFilter, int, String)}. */
    default Page<AuditEntry> list(AuditFilter filter, int limit) {
        return list(filter, limit, null);
    }

    /**
     * Returns entries page by page, the newest first.
     *
     * @param limit the largest number of entries in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page of the same filter; null: begins
     * @throws IllegalArgumentException if the cursor does not belong to the filter
     */
    Page<AuditEntry> list(AuditFilter filter, int limit, @Nullable String cursor);
}

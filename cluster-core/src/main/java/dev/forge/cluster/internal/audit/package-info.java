/**
 * The audit trail. {@link dev.forge.cluster.internal.audit.Audit} knows the operator of the current thread; a capability wraps a change
 * of its tables in {@link dev.forge.cluster.internal.audit.AuditedChanges}, which adds the entry to the same transaction. Without an
 * operator, the change is executed as if there were no audit trail: with the same statements, and in no transaction of its own.
 */
@NullMarked
package dev.forge.cluster.internal.audit;

import org.jspecify.annotations.NullMarked;

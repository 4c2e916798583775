// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import dev.forge.cluster.ClusterEvent;
import org.jspecify.annotations.Nullable;

/**
 * Spring event: an operation was recorded in the {@link AuditTrail} and is committed. Published once for each operation, on the node
 * that was called, on the cluster's own event thread; a bulk operation publishes one event at its end. Not published for statements in
 * database sessions, and not if the node crashes after the commit.
 *
 * @param action what was done, such as {@code job.cancel}
 * @param target the id or name of what was changed, or the text of a filter
 * @param detail the new value; null: none
 * @param count how many things were changed
 * @param reason the reason that the operator gave; null: none
 */
public record OperationAudited(
        Operator operator,
        String action,
        String target,
        @Nullable String detail,
        long count,
        @Nullable String reason) implements ClusterEvent {}

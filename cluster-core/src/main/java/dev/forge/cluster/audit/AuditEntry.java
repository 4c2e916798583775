// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A recorded change.
 *
 * @param id increases from entry to entry
 * @param at the time of the change, by the database's clock
 * @param who the principal, or the database role that executed a statement
 * @param address the address of the client; null: unknown
 * @param source where the operation came from
 * @param action what was done, such as {@code job.cancel}
 * @param target the id or name of what was changed, or the text of the filter of a bulk operation
 * @param detail the new value, such as a limit or a time; null: none
 * @param count how many jobs, runs or other things were changed, at least 1
 * @param reason the reason that the operator gave; null: none
 * @param call identifies the call of a bulk operation, which has an entry for each batch of jobs that it has committed; null: the
 *     entry is the only one of its call
 */
public record AuditEntry(
        long id,
        Instant at,
        String who,
        @Nullable String address,
        AuditSource source,
        String action,
        String target,
        @Nullable String detail,
        long count,
        @Nullable String reason,
        @Nullable UUID call) {}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Entries of the audit trail, as the resource {@code audit} returns them.
 *
 * @param entries the newest first
 * @param next the value of the parameter {@code before} for the next page; absent if there are no further entries
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record AuditDescriptor(
        List<EntryDescriptor> entries, @Nullable Long next) {

    /**
     * A recorded change.
     *
     * @param id increases from entry to entry
     * @param at the time of the change
     * @param who the principal, or the database role
     * @param address the address of the client; absent: unknown
     * @param source dashboard, endpoint, http, java or sql
     * @param action what was done, such as job.cancel
     * @param target the id or name of what was changed; the filter of an operation on many jobs, sanitized
     * @param detail the new value, such as a limit, sanitized; absent: none
     * @param count how many things were changed
     * @param reason the reason that the operator gave, sanitized; absent: none
     * @param call the call of an operation on many jobs, which has an entry for each of its batches
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record EntryDescriptor(
            long id,
            Instant at,
            String who,
            @Nullable String address,
            String source,
            String action,
            @Nullable Object target,
            @Nullable Object detail,
            long count,
            @Nullable Object reason,
            @Nullable UUID call) {}
}

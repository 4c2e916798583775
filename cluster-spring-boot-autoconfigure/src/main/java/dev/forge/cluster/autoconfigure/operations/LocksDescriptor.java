// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The locks that are held, as the resource {@code locks} returns them.
 *
 * @param locks the locks, the one acquired last at the beginning
 */
public record LocksDescriptor(List<LockDescriptor> locks) {

    /**
     * A lock.
     *
     * @param name the name, sanitized
     * @param owner the node that holds it
     * @param token its fencing token
     * @param lockedAt when it was acquired
     * @param expiresAt when it expires unless its owner extends it
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record LockDescriptor(
            @Nullable Object name, UUID owner, long token, OffsetDateTime lockedAt, OffsetDateTime expiresAt) {}
}

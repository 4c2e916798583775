// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.actuate.LocksDescriptor.LockDescriptor;
import dev.forge.cluster.internal.lock.LockStore;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * {@code /actuator/forgecluster/locks}: lists the locks that are held. The name of a lock may carry data of the application, such as
 * a customer number, and is sanitized like any other value.
 */
final class LocksResource {

    private static final int DEFAULT_LIMIT = 50;

    private final LockStore locks;
    private final EndpointValues values;

    LocksResource(LockStore locks, EndpointValues values) {
        this.locks = locks;
        this.values = values;
    }

    LocksDescriptor list(@Nullable Integer limit, SecurityContext user) {
        EndpointValues.Sanitized shown = values.shownTo(user);
        return new LocksDescriptor(locks.held(EndpointRequests.limit(limit, DEFAULT_LIMIT)).stream()
                .map(lock -> new LockDescriptor(
                        shown.value("lock", lock.name()),
                        lock.owner(),
                        lock.token(),
                        lock.lockedAt(),
                        lock.expiresAt()))
                .toList());
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.LocksDescriptor.LockDescriptor;
import dev.forge.cluster.internal.lock.LockStore;

/**
 * The resource {@code locks}: lists the locks that are held. The name of a lock may carry data of the application, such as
 * a customer number, and is sanitized like any other value.
 */
final class LocksResource implements Resource {

    private static final int DEFAULT_LIMIT = 50;
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("limit");

    private final LockStore locks;
    private final ValueSanitizer values;

    LocksResource(LockStore locks, ValueSanitizer values) {
        this.locks = locks;
        this.values = values;
    }

    @Override
    public String name() {
        return "locks";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        ValueSanitizer.Sanitized shown = values.shownTo(request.caller());
        return request.result(new LocksDescriptor(locks.held(request.limit(DEFAULT_LIMIT)).stream()
                .map(lock -> new LockDescriptor(
                        shown.value("lock", lock.name()),
                        lock.owner(),
                        lock.token(),
                        lock.lockedAt(),
                        lock.expiresAt()))
                .toList()));
    }
}

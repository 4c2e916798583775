// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import java.sql.Connection;

/** A connection of {@link ControlConnections}, with what decides whether it is lent again. */
final class PhysicalConnection {

    private final Connection connection;
    private final long openedAt;
    private final long usedUntil;
    private volatile boolean readOnly;

    /** @param usedUntil when it is to be replaced, on the same monotonic clock as {@code openedAt} */
    PhysicalConnection(Connection connection, long openedAt, long usedUntil) {
        this.connection = connection;
        this.openedAt = openedAt;
        this.usedUntil = usedUntil;
    }

    Connection connection() {
        return connection;
    }

    long openedAt() {
        return openedAt;
    }

    long usedUntil() {
        return usedUntil;
    }

    /** Returns whether a statement has found its session to be read-only. */
    boolean isReadOnly() {
        return readOnly;
    }

    void foundReadOnly() {
        readOnly = true;
    }
}

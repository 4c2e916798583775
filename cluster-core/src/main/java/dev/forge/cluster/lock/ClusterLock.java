// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.lock;

import java.time.Duration;

/** A lock that this node holds. */
public interface ClusterLock extends AutoCloseable {

    /** Returns the name of the lock. */
    String name();

    /** Returns the fencing token, which is larger than that of every earlier holder. The protected resource can reject smaller ones. */
    long token();

    /**
     * Extends the lease so that it ends after that time from now.
     *
     * @return whether the lease was extended; false if it had expired, in which case another node may hold the lock
     */
    boolean extend(Duration lease);

    /** Releases the lock, unless it has expired and another node holds it. */
    @Override
    void close();
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/**
 * Notifies other nodes of new work. Notifications may be lost or arrive twice: nodes also poll, only later. A bean of this type
 * replaces PostgreSQL's {@code NOTIFY} and overrides {@code forge.cluster.wakeup.type}.
 */
public interface ClusterCoordinator {

    /**
     * Notifies the other nodes. Called after the commit on a thread of the cluster, at most every few milliseconds and once for
     * all jobs that were enqueued meanwhile. Should return soon; if it throws, it is called again a little later. Not called
     * while the node knows no other node; the notification is sent as soon as one joins.
     *
     * @param priority the highest priority of the enqueued jobs
     */
    void notifyNewWork(JobPriority priority);

    /** Registers a listener that must be called for each notification of another node. The listener does not block. */
    void registerWakeupListener(Runnable listener);

    /** Returns whether notifications get through, as far as is known without a round trip. Shown in the health component. */
    default boolean isConnected() {
        return true;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

/** Which node runs a cron. */
public enum CronTarget {
    /**
     * The leader of the scheduler role, on a small pool of its own; it need not be a worker. If the leader does not have the
     * handler, another node with the role scheduler that has it.
     */
    LEADER,
    /** Any worker that has the handler, as for any other job. */
    ANY_WORKER
}

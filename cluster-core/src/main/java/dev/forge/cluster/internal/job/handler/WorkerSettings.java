// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import java.time.Duration;
import java.util.List;
import java.util.function.IntSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How a node runs jobs.
 *
 * @param claiming whether workers share the jobs; otherwise this node runs jobs only while it is the only worker
 * @param lanes the executors
 * @param cronSlots how many crons a leader runs concurrently
 */
public record WorkerSettings(
        boolean claiming,
        Duration pollInterval,
        List<LaneSettings> lanes,
        IntSupplier cronSlots,
        Leases leases,
        Keeping keeping) {

    /** Creates settings with a fixed number of cron slots. */
    public WorkerSettings(
            boolean claiming,
            Duration pollInterval,
            List<LaneSettings> lanes,
            int cronSlots,
            Leases leases,
            Keeping keeping) {
        this(claiming, pollInterval, lanes, () -> cronSlots, leases, keeping);
    }

    /**
     * An executor.
     *
     * @param slots how many jobs run concurrently; read when the node starts, because the default depends on its handlers
     * @param prefetch how many claimed jobs may wait for a free slot; null: measured
     */
    public record LaneSettings(
            String name, IntSupplier slots, @Nullable Integer prefetch, boolean virtualThreads) {

        /** Creates settings with a fixed number of slots. */
        public LaneSettings(String name, int slots, @Nullable Integer prefetch, boolean virtualThreads) {
            this(name, () -> slots, prefetch, virtualThreads);
        }
    }

    /**
     * The leases of claimed jobs.
     *
     * @param duration how long a lease is valid without renewal
     * @param heartbeat the interval between renewals
     * @param claimStart how long a claimed job may wait for its start
     * @param crash what a node crash costs a job
     */
    public record Leases(Duration duration, Duration heartbeat, Duration claimStart, CrashRule crash) {}

    /**
     * Recovery and retention of jobs.
     *
     * @param sweep the interval between sweeps
     * @param grace how long expired leases are ignored after a start, a gap between sweeps, or a restart of the server
     * @param completed how long completed and cancelled jobs are kept
     * @param failed how long failed and abandoned jobs are kept
     */
    public record Keeping(Duration sweep, Duration grace, Duration completed, Duration failed) {}
}

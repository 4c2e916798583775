package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.JobStore.CrashRule;
import java.time.Duration;
import java.util.List;
import java.util.function.IntSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How a node works on jobs.
 *
 * @param claiming whether workers share the jobs; otherwise this one works only while it is alone
 * @param lanes where jobs run
 * @param cronSlots how many runs of crons it works on at once because it leads
 */
public record WorkerSettings(
        boolean claiming,
        Duration pollInterval,
        List<LaneSettings> lanes,
        IntSupplier cronSlots,
        Leases leases,
        Keeping keeping) {

    /** With a number of slots for crons that does not depend on anything. */
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
     * @param slots how many jobs run at once; asked when the node starts, as the default depends on its handlers
     * @param prefetch how many claimed jobs may wait for a free slot; null: measured
     */
    public record LaneSettings(
            String name, IntSupplier slots, @Nullable Integer prefetch, boolean virtualThreads) {

        /** Of a size that does not depend on anything. */
        public LaneSettings(String name, int slots, @Nullable Integer prefetch, boolean virtualThreads) {
            this(name, () -> slots, prefetch, virtualThreads);
        }
    }

    /**
     * How jobs are held.
     *
     * @param duration without a sign of life
     * @param heartbeat between two signs of life
     * @param claimStart how long a claimed job may wait for its start
     */
    public record Leases(Duration duration, Duration heartbeat, Duration claimStart, CrashRule crash) {}

    /**
     * How they are looked after.
     *
     * @param sweep between two looks for jobs to recover
     * @param grace how long leases are not held against anybody after a start, a gap, or a restart of the server
     * @param completed how long completed and cancelled jobs are kept
     * @param failed how long failed and abandoned jobs are kept
     */
    public record Keeping(Duration sweep, Duration grace, Duration completed, Duration failed) {}
}

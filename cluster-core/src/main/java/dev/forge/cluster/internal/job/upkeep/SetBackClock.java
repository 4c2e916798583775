// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.upkeep;

import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.job.row.JobScheduleStore.Moved;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.time.Instant;
import java.util.UUID;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * What the leader does when the database's clock was set back: jobs that were written before the step would wait until the clock has
 * caught up. It makes them due at the time at which they would have been due. Only the times of such rows change, so a repeated pass
 * does nothing.
 */
public final class SetBackClock {

    private static final Logger log = GuardedLogger.of(SetBackClock.class);

    /** How long one sweep moves jobs; the next one continues. */
    private static final Duration LONGEST = Duration.ofSeconds(2);

    private final JobScheduleStore store;
    private final LongSupplier nanos;

    /** The newest time whose jobs are moved, or have been; null while the clock is right. */
    private @Nullable Instant newest;

    private @Nullable UUID last;
    private boolean completed;
    private long moved;

    SetBackClock(JobScheduleStore store, LongSupplier nanos) {
        this.store = store;
        this.nanos = nanos;
    }

    /**
     * Makes one pass, if this node is the leader.
     *
     * @param time what the database's clock shows
     * @param shown the newest time that it is known to have shown
     * @return whether jobs may be due now
     */
    boolean pass(Instant time, Instant shown) {
        if (!JobScheduleStore.isBehind(time, shown)) {
            newest = null;
            return false;
        }
        if (newest == null || JobScheduleStore.isBehind(newest, shown)) {
            newest = shown;
            last = null;
            completed = false;
            moved = 0;
            log.warn(
                    "The database clock was set back by {} s or more. Jobs that were written before are made due as planned;"
                            + " crons fire again when the clock has passed the slots that they have had. Trigger those that"
                            + " cannot wait.",
                    Duration.between(time, shown).toSeconds());
        }
        return !completed && move(newest);
    }

    private boolean move(Instant before) {
        long began = nanos.getAsLong();
        long earlier = moved;
        do {
            Moved page = store.makeDue(last, before);
            moved += page.jobs();
            last = page.last();
            completed = last == null;
        } while (!completed && nanos.getAsLong() - began < LONGEST.toNanos());
        if (completed && moved > 0) {
            log.info("{} jobs that were written before the database clock was set back have a new time", moved);
        }
        return moved > earlier;
    }
}

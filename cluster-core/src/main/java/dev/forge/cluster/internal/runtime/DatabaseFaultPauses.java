// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/**
 * Pauses for jobs and workflow runs that a database fault has interrupted. They grow with each fault in a row, and start again
 * after progress. Kept in memory, so a node that takes over begins with the shortest pause.
 */
public final class DatabaseFaultPauses {

    private static final int MOST_JOBS = 10_000;

    private final Backoff backoff;
    private final Map<UUID, Integer> failures = new LinkedHashMap<>();

    /** Creates pauses for a database that cannot be reached. */
    public DatabaseFaultPauses() {
        this(Duration.ofMillis(250));
    }

    /** @param first the pause after the first fault */
    public DatabaseFaultPauses(Duration first) {
        this.backoff = new Backoff(Backoff.Growth.EXPONENTIAL, first, 2, Duration.ofSeconds(30));
    }

    /** Returns the number of faults in a row. */
    public synchronized int inARow(UUID job) {
        return failures.getOrDefault(job, 0);
    }

    /** Returns the pause after one more fault. */
    public synchronized Duration next(UUID job) {
        // Inserted again at the end: the job whose last fault is oldest is forgotten first.
        Integer before = failures.remove(job);
        int count = before == null ? 1 : before + 1;
        failures.put(job, count);
        if (failures.size() > MOST_JOBS) {
            failures.remove(failures.keySet().iterator().next());
        }
        return backoff.delay(count);
    }

    /** Called when a job has made progress or has ended. */
    public synchronized void forget(UUID job) {
        failures.remove(job);
    }
}

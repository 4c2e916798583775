package dev.forge.cluster.internal.engine;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/**
 * How long a job or a run of a workflow pauses that the database has kept from going on: longer each time in a row, and from
 * the beginning once it got further. Kept in memory: a node that takes over begins with the shortest pause.
 */
final class DatabasePauses {

    private static final Backoff BACKOFF =
            new Backoff(Backoff.Growth.EXPONENTIAL, Duration.ofMillis(250), 2, Duration.ofSeconds(30));
    private static final int MOST_JOBS = 10_000;

    private final Map<UUID, Integer> failures = new LinkedHashMap<>();

    /** The pause after one more failure. */
    synchronized Duration next(UUID job) {
        // The latest to fail is the last to be forgotten.
        Integer before = failures.remove(job);
        int count = before == null ? 1 : before + 1;
        failures.put(job, count);
        if (failures.size() > MOST_JOBS) {
            failures.remove(failures.keySet().iterator().next());
        }
        return BACKOFF.delay(count);
    }

    /** It has got further, or has ended otherwise. */
    synchronized void forget(UUID job) {
        failures.remove(job);
    }
}

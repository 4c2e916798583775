package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.runtime.Backoff;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/**
 * How long a run pauses whose execution has ended because the database failed: longer each time in a row, and from the
 * beginning once the run has written something. Kept in memory: a node that takes over begins with the shortest pause.
 */
final class DatabaseFaultPauses {

    private static final Backoff BACKOFF =
            new Backoff(Backoff.Growth.EXPONENTIAL, Duration.ofMillis(250), 2, Duration.ofSeconds(30));
    private static final int MOST_RUNS = 10_000;

    private final Map<UUID, Integer> failures = new LinkedHashMap<>();

    /** The pause after one more failure. */
    synchronized Duration next(UUID run) {
        // The latest to fail is the last to be forgotten.
        Integer before = failures.remove(run);
        int count = before == null ? 1 : before + 1;
        failures.put(run, count);
        if (failures.size() > MOST_RUNS) {
            failures.remove(failures.keySet().iterator().next());
        }
        return BACKOFF.delay(count);
    }

    /** The run has written something, or has ended otherwise. */
    synchronized void forget(UUID run) {
        failures.remove(run);
    }
}

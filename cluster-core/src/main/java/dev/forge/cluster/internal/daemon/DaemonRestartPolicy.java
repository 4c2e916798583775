// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.internal.daemon.DaemonHandler.Restarts;
import dev.forge.cluster.internal.runtime.Backoff;
import java.time.Duration;
import java.util.random.RandomGenerator;

/** Computes when the method of a daemon starts again: the delay doubles with each short run in a row. */
final class DaemonRestartPolicy {

    private static final Duration SHORTEST_DELAY = Duration.ofMillis(1);
    private static final Duration LONGEST_DELAY = Duration.ofMinutes(5);
    /** After failures of the database server, which end for all daemons at the same time. */
    private static final Duration LONGEST_DELAY_AFTER_SERVER_FAILURE = Duration.ofSeconds(5);

    private static final double JITTER = 0.1;

    private final Duration recoveredAfter;
    private final RandomGenerator random = RandomGenerator.getDefault();

    /** @param recoveredAfter the shortest run after which earlier failures do not count any more */
    DaemonRestartPolicy(Duration recoveredAfter) {
        this.recoveredAfter = recoveredAfter;
    }

    /** Returns the delay after that many short runs in a row. */
    Duration delay(Restarts restarts, int shortRuns) {
        return delay(restarts, shortRuns, LONGEST_DELAY);
    }

    /** Returns the delay after that many failures of the database server in a row. */
    Duration delayAfterServerFailure(Restarts restarts, int failures) {
        return delay(restarts, failures, LONGEST_DELAY_AFTER_SERVER_FAILURE);
    }

    /** Returns how long a method must run before it has recovered: ten delays at least. */
    Duration recoveredAfter(Restarts restarts) {
        Duration tenDelays = restarts.delay().multipliedBy(10);
        return tenDelays.compareTo(recoveredAfter) > 0 ? tenDelays : recoveredAfter;
    }

    private Duration delay(Restarts restarts, int times, Duration max) {
        // A delay of zero would never grow.
        Duration first = restarts.delay().compareTo(SHORTEST_DELAY) < 0 ? SHORTEST_DELAY : restarts.delay();
        Duration longest = first.compareTo(max) > 0 ? first : max;
        return jittered(new Backoff(Backoff.Growth.EXPONENTIAL, first, 2, longest).delay(times));
    }

    private Duration jittered(Duration delay) {
        return Duration.ofNanos((long) (delay.toNanos() * (1 + JITTER * (2 * random.nextDouble() - 1))));
    }
}

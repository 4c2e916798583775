// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonHandler.Restarts;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Backoff;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.time.Duration;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/** Decides whether and when the method of a daemon starts again: the delay doubles with each short run in a row. */
final class DaemonRestartPolicy {

    private static final Logger log = GuardedLogger.of(DaemonSupervisor.class);

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

    /** Decides what follows when the method has ended by itself. */
    void decide(DaemonRun run, Duration ran, @Nullable Throwable failure) {
        if (failure != null) {
            restart(run, ran, failure);
        } else if (run.handler().restarts().onReturn()) {
            // Returning is no failure, however often it happens.
            run.endedAfter(ran, recoveredAfter(run.handler().restarts()));
            run.restartIn(delay(run.handler().restarts(), run.shortRuns()));
        } else {
            run.finish(DaemonStatus.STOPPED);
            log.info("Daemon {} term {}: method returned, daemon stopped", run.label(), run.term());
        }
    }

    private void restart(DaemonRun run, Duration ran, Throwable failure) {
        if (DatabaseFailure.kind(failure).isOfServer()) {
            restartAfterServerFailure(run, failure);
            return;
        }
        Integer max = run.handler().restarts().most();
        int failures = run.failed(failure, ran, recoveredAfter(run.handler().restarts()));
        if (max != null && failures > max) {
            run.finish(DaemonStatus.FAILED);
            log.error(
                    "Daemon {} term {}: failed {} times in a row, more than maxRestarts {}. It stays failed until it is resumed"
                            + " or a node that has it starts.",
                    run.label(),
                    run.term(),
                    failures,
                    max,
                    ErrorText.loggable(failure));
            return;
        }
        Duration delay = delay(run.handler().restarts(), run.shortRuns());
        run.restartIn(delay);
        log.warn(
                "Daemon {} term {}: failed, restarting in {} ms",
                run.label(),
                run.term(),
                delay.toMillis(),
                ErrorText.loggable(failure));
    }

    /** Restarts the method without counting the failure, because the database server has failed and not the daemon. */
    private void restartAfterServerFailure(DaemonRun run, Throwable failure) {
        int failures = run.failedByServer(failure);
        Duration delay = delayAfterServerFailure(run.handler().restarts(), failures);
        run.restartIn(delay);
        log.atLevel(failures == 1 ? Level.WARN : Level.DEBUG)
                .log(
                        "Daemon {} term {}: failed because of the database server: {}. Restarting in {} ms; maxRestarts does not"
                                + " count this. Further failures of the server are logged at DEBUG.",
                        run.label(),
                        run.term(),
                        DatabaseFailure.brief(failure),
                        delay.toMillis());
    }

    /** Returns the delay after that many short runs in a row. */
    private Duration delay(Restarts restarts, int shortRuns) {
        return delay(restarts, shortRuns, LONGEST_DELAY);
    }

    /** Returns the delay after that many failures of the database server in a row. */
    private Duration delayAfterServerFailure(Restarts restarts, int failures) {
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

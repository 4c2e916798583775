// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.failure.Causes;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.DatabaseFaultPauses;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.FailureRow;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.transaction.TransactionException;

/** Returns jobs whose transaction failed for no fault of theirs, after a pause that grows each time. Their attempts do not count. */
final class ReturnPauses {

    private static final Logger log = GuardedLogger.of(ReturnPauses.class);

    /** How many conflicts in a row cost no attempt. A handler that conflicts each time must fail in the end. */
    private static final int FREE_CONFLICTS = 5;

    private final DatabaseFaultPauses begins = new DatabaseFaultPauses();
    private final DatabaseFaultPauses conflicts = new DatabaseFaultPauses(Duration.ofMillis(20));
    private final RandomGenerator random = RandomGenerator.getDefault();
    /** How many transactions in a row could not begin. */
    private final AtomicInteger beginFailures = new AtomicInteger();

    /** Returns whether the last transaction of a job could not begin. */
    boolean isUnable() {
        return beginFailures.get() > 0;
    }

    void begun(UUID job) {
        begins.forget(job);
        int failed = beginFailures.getAndSet(0);
        if (failed > 0) {
            log.info("Transactions of jobs begin again after {}", FailureRow.text(failed));
        }
    }

    /** A transaction has ended without a conflict, or its failure counts. */
    void settled(UUID job) {
        conflicts.forget(job);
    }

    /** Returns whether a further conflict of a job costs no attempt. */
    boolean mayConflict(UUID job) {
        return conflicts.inARow(job) < FREE_CONFLICTS;
    }

    /** Returns the ending of a job whose transaction could not begin: the database or the pool is the cause. */
    Ending unbegun(Attempt attempt, TransactionException failure) {
        String cause = ErrorText.brief(Causes.root(failure));
        long pause = jittered(begins.next(attempt.id()));
        log.atLevel(beginFailures.getAndIncrement() == 0 ? Level.WARN : Level.DEBUG)
                .log(
                        "Job {} ({}): its transaction could not begin, the attempt is not counted; next try in {} ms: {}. Further failures"
                                + " are logged at DEBUG until a transaction begins.",
                        attempt.name(),
                        attempt.id(),
                        pause,
                        cause);
        return returned(attempt, pause, "Its transaction could not begin, the attempt is not counted: " + cause);
    }

    /**
     * Returns the ending of a job whose transaction the database rolled back because of another one (a serialization failure, a
     * deadlock), or because of a row that references the job.
     */
    Ending conflicted(Attempt attempt, Throwable failure) {
        String cause = ErrorText.brief(Causes.root(failure));
        long pause = jittered(conflicts.next(attempt.id()));
        log.debug(
                "Job {} ({}): its transaction conflicted with another one, the attempt is not counted; next try in {} ms: {}",
                attempt.name(),
                attempt.id(),
                pause,
                cause);
        return returned(
                attempt, pause, "Its transaction conflicted with another one, the attempt is not counted: " + cause);
    }

    private static Ending returned(Attempt attempt, long pause, String reason) {
        return Ending.returned(attempt.returned(Duration.ofMillis(pause), ErrorText.storable(reason)), null);
    }

    private long jittered(Duration pause) {
        return (long) (pause.toMillis() * (1 + random.nextDouble()));
    }
}

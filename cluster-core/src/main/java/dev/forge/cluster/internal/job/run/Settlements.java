// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.finish.JobEnd;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import java.util.Objects;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/** Reports ends that are written, and tells the node what they make possible. */
final class Settlements {

    private static final Logger log = GuardedLogger.of(Settlements.class);

    private final RowLog rows = new RowLog();
    private final WorkerNode node;
    private final Claims claims;
    private final JobMonitor monitor;
    private final JobFinishStore finishes;
    private final EndDecisions decisions;

    Settlements(WorkerParts parts, WorkerNode node, Claims claims, EndDecisions decisions) {
        this.node = node;
        this.claims = claims;
        this.monitor = parts.monitor();
        this.finishes = parts.stores().finishes();
        this.decisions = decisions;
    }

    JobEnd.Listener of(Attempt attempt) {
        return new Settlement(attempt);
    }

    private final class Settlement implements JobEnd.Listener {

        private final Attempt attempt;

        Settlement(Attempt attempt) {
            this.attempt = attempt;
        }

        @Override
        public void rejected(String error, Throwable rejection) {
            Ending ending = attempt.end();
            if (ending != null) {
                attempt.ended(ending.rejected(error, rejection));
            }
        }

        @Override
        public void settled(boolean written, boolean unconfirmed) {
            attempt.settled();
            try {
                if (written) {
                    written(attempt, unconfirmed);
                } else {
                    claims.cancelOrLose(attempt, "another node had taken it before its result was written");
                }
            } catch (Throwable e) {
                // The other jobs of the same statement must be settled, too.
                rows.warn(
                        log,
                        "Job %s: failure after its end was written".formatted(attempt.name()),
                        "Job {} ({}): failure after its end was written",
                        attempt.name(),
                        attempt.id(),
                        ErrorText.loggable(e));
            }
        }
    }

    private void written(Attempt attempt, boolean unconfirmed) {
        if (claims.forget(attempt)) {
            report(attempt, unconfirmed);
        }
        if (attempt.isReturning() || claims.isLastChance(attempt.claimed())) {
            // The job itself, or other jobs at their last chance that were postponed because of it.
            node.jobReturned();
        }
        if (decisions.isAwaited(attempt)) {
            node.jobsReleased();
        }
        if (!attempt.isReturning()) {
            node.ended(attempt.claimed());
        }
    }

    private void report(Attempt attempt, boolean unconfirmed) {
        Ending ending = Objects.requireNonNull(attempt.end());
        Kind outcome = ending.kind();
        if (outcome == Kind.FAILED && unconfirmed && isCompleted(attempt)) {
            outcome = Kind.COMPLETED;
        } else if (outcome == Kind.FAILED) {
            String error = ending.error();
            monitor.failed(attempt.id(), attempt.name(), JobStatus.FAILED, error != null ? error : "no error recorded");
        }
        monitor.ended(attempt.name(), outcome, ending.ranNanos());
    }

    /** Returns whether a transaction that seemed to have failed has completed the job, because the response to its commit was lost. */
    private boolean isCompleted(Attempt attempt) {
        try {
            return finishes.isCompleted(attempt.key());
        } catch (DataAccessException e) {
            log.debug("Job {} ({}): could not check whether it is completed", attempt.name(), attempt.id(), e);
            return false;
        }
    }
}

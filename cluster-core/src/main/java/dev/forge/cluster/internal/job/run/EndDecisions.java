// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.Claim.Stop;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import java.time.Duration;
import java.util.Objects;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/** Decides how an attempt ends, from what its handler has returned or thrown, and logs failures. */
final class EndDecisions {

    private static final Logger log = GuardedLogger.of(EndDecisions.class);

    /** The shortest delay of a job that exceeded a rate limit. */
    private static final Duration RATE_LIMIT_DELAY = Duration.ofSeconds(1);

    private static final Duration SHORTEST_RETENTION = Duration.ofMillis(1);

    private final RowLog rows = new RowLog();
    private final PayloadJson json;
    private final JobHandlers handlers;
    private final JobMonitor monitor;
    private final WorkerNode node;
    private final RandomGenerator random = RandomGenerator.getDefault();

    EndDecisions(PayloadJson json, JobHandlers handlers, JobMonitor monitor, WorkerNode node) {
        this.json = json;
        this.handlers = handlers;
        this.monitor = monitor;
        this.node = node;
    }

    /** Returns whether a job that the cluster enqueued for itself waits for the end of this one. */
    boolean isAwaited(Attempt attempt) {
        return handlers.owned().stream().anyMatch(owned -> owned.isAwaited(attempt.claimed()));
    }

    /** Returns the ending of an attempt whose handler of the cluster has written it itself. */
    Ending ofRecorded(Attempt attempt, RecordedOutcome outcome) {
        Kind kind = switch (outcome) {
            case COMPLETED -> Kind.COMPLETED;
            case FAILED -> Kind.FAILED;
            case SNOOZED -> Kind.SNOOZED;
            case LOST -> Kind.LOST;
        };
        return new Ending(kind, null, null, ran(attempt), null);
    }

    /** Returns the ending of an attempt whose handler returned. */
    Ending ofReturn(Attempt attempt, @Nullable Object returned) {
        Outcome outcome = returned instanceof Outcome decided ? decided : new Outcome.Completed(returned);
        if (outcome instanceof Outcome.Completed completed) {
            return ending(attempt, Kind.COMPLETED, write(completed.result()), null, 0, null);
        } else if (outcome instanceof Outcome.Snoozed snoozed) {
            return ending(attempt, Kind.SNOOZED, null, null, snoozed.delay().toMillis(), null);
        } else if (outcome instanceof Outcome.Retried retried) {
            return retry(attempt, retried.reason(), retried.delay().toMillis(), null);
        }
        return failed(attempt, ((Outcome.Failed) outcome).reason(), null);
    }

    private @Nullable String write(@Nullable Object result) {
        try {
            return result == null ? null : json.write(result);
        } catch (IllegalArgumentException e) {
            throw new NonRetryableJobException("its result " + e.getMessage(), e);
        }
    }

    /** Returns the ending of an attempt whose handler threw an exception. */
    Ending ofFailure(Attempt attempt, Throwable failure) {
        try {
            return decide(attempt, failure);
        } catch (Throwable e) {
            // A backoff strategy, a logger or this class failed: the job must end nevertheless.
            logBug(attempt, e);
            return ending(attempt, Kind.FAILED, null, ErrorText.storable(e), 0, failure);
        }
    }

    private void logBug(Attempt attempt, Throwable bug) {
        try {
            rows.log(
                    log,
                    Level.ERROR,
                    "Job %s: failed, no further attempt".formatted(attempt.name()),
                    "Job {} ({}): failed, no further attempt: the failure of its handler could not be processed",
                    attempt.name(),
                    attempt.id(),
                    ErrorText.loggable(bug));
        } catch (RuntimeException | Error e) {
            // The logger failed: the end of the job is written nevertheless.
            bug.addSuppressed(e);
        }
    }

    private Ending decide(Attempt attempt, Throwable failure) {
        Stop stop = attempt.stopReason();
        boolean late = failure instanceof JobTimeoutException;
        if (stop == Stop.LOST) {
            return Ending.lost(failure);
        }
        if (stop == Stop.DRAIN && !late) {
            log.info(
                    "Job {} ({}): returned because this node drains; another node will run it",
                    attempt.name(),
                    attempt.id());
            return Ending.returned(attempt.returned(Duration.ZERO, null), null);
        }
        if (stop == null && failure instanceof RateLimitExceededException limited) {
            return ending(attempt, Kind.SNOOZED, null, null, delayOf(limited), null);
        }
        Throwable cause = failure;
        if (stop == Stop.TIMEOUT && !late) {
            cause = new JobTimeoutException(
                    "the attempt took longer than "
                            + PlainText.duration(
                                    Objects.requireNonNull(attempt.limits().timeout())),
                    failure);
        }
        JobHandler.Limits limits = attempt.limits();
        if (cause instanceof NonRetryableJobException || limits.isPermanent(cause)) {
            return failed(attempt, ErrorText.storable(cause), cause);
        }
        double wait = limits.backoff().delay(attempt.attempt(), cause).toMillis();
        long jittered = (long) (wait * (1 + limits.jitter() * (2 * random.nextDouble() - 1)));
        return retry(attempt, ErrorText.storable(cause), Math.max(0, jittered), cause);
    }

    /** Exceeding a rate limit is no failure. The delay is random, so that jobs of the same limit do not return all at once. */
    private long delayOf(RateLimitExceededException limited) {
        long least = Math.max(
                RATE_LIMIT_DELAY.toMillis(), limited.decision().retryAfter().toMillis());
        return (long) (least * (1 + random.nextDouble()));
    }

    /** Fails the job permanently. The only place that logs the stack trace of a failure. */
    private Ending failed(Attempt attempt, String error, @Nullable Throwable cause) {
        rows.log(
                log,
                Level.ERROR,
                "Job %s: failed, no further attempt".formatted(attempt.name()),
                "Job {} ({}): failed at attempt {} of {}, no further attempt: {}",
                attempt.name(),
                attempt.id(),
                attempt.attempt(),
                attempt.maxAttempts(),
                ErrorText.firstLine(error),
                cause == null ? null : ErrorText.loggable(cause));
        return ending(attempt, Kind.FAILED, null, error, 0, cause);
    }

    private Ending retry(Attempt attempt, String error, long delayMillis, @Nullable Throwable cause) {
        if (attempt.attempt() >= attempt.maxAttempts()) {
            return failed(attempt, error, cause);
        }
        rows.log(
                log,
                Level.INFO,
                "Job %s: failed, to be retried".formatted(attempt.name()),
                "Job {} ({}): attempt {} of {} failed, next attempt in {} ms: {}",
                attempt.name(),
                attempt.id(),
                attempt.attempt(),
                attempt.maxAttempts(),
                delayMillis,
                ErrorText.firstLine(error));
        monitor.retried(attempt.name());
        return ending(attempt, Kind.RETRIED, null, error, delayMillis, cause);
    }

    private Ending ending(
            Attempt attempt,
            Kind kind,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            @Nullable Throwable cause) {
        JobStatus status = switch (kind) {
            case COMPLETED -> JobStatus.COMPLETED;
            case SNOOZED, RETRIED, RETURNED -> JobStatus.PENDING;
            case FAILED, LOST -> JobStatus.FAILED;
        };
        long ran = ran(attempt);
        var finish = new Finish(
                attempt.key(),
                status,
                result,
                error == null ? null : ErrorText.storable(error),
                delayMillis,
                kind == Kind.SNOOZED ? 1 : 0,
                status == JobStatus.COMPLETED ? null : attempt.notes().lateCheckpoint(),
                attempt.takeProgress(),
                retention(attempt, status),
                ran / 1_000_000,
                cause instanceof JobTimeoutException);
        return new Ending(kind, cause, error, ran, finish);
    }

    private long ran(Attempt attempt) {
        return node.nanos() - attempt.startedAt();
    }

    /** Returns the retention of the handler; zero deletes completed jobs, while failed ones are kept as the cluster is configured. */
    private @Nullable Duration retention(Attempt attempt, JobStatus status) {
        Duration own = attempt.limits().retention();
        if (own != null && own.isZero() && (isAwaited(attempt) || node.isStepped())) {
            // Kept until the waiting job, or the test, has read it.
            return SHORTEST_RETENTION;
        }
        boolean kept = status == JobStatus.COMPLETED || (status.isFinal() && own != null && !own.isZero());
        return kept ? own : null;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.run.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import java.time.Duration;
import java.util.Objects;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/** Decides how an attempt ends: converts what a handler returned or threw into the end of its claim, and logs failures. */
final class AttemptResults {

    private static final Logger log = GuardedLogger.of(AttemptResults.class);

    /** The shortest delay of a job that exceeded a rate limit. */
    private static final Duration RATE_LIMIT_DELAY = Duration.ofSeconds(1);

    private static final Duration SHORTEST_RETENTION = Duration.ofMillis(1);

    private final RowLog rows = new RowLog();
    private final PayloadJson json;
    private final JobHandlers handlers;
    private final JobMonitor monitor;
    private final WorkerNode node;
    private final RandomGenerator random = RandomGenerator.getDefault();

    AttemptResults(PayloadJson json, JobHandlers handlers, JobMonitor monitor, WorkerNode node) {
        this.json = json;
        this.handlers = handlers;
        this.monitor = monitor;
        this.node = node;
    }

    /** Returns whether a job that the cluster enqueued for itself waits for the end of this one. */
    boolean isAwaited(RunningJob running) {
        return handlers.owned().stream().anyMatch(owned -> owned.isAwaited(running.claimed()));
    }

    /** Notes the outcome that a handler of the cluster has written itself. */
    void recorded(RunningJob running, RecordedOutcome outcome) {
        running.ranFor(node.nanos() - running.startedAt());
        switch (outcome) {
            case COMPLETED -> running.ended(Kind.COMPLETED, null);
            case FAILED -> running.ended(Kind.FAILED, running.failure());
            case PENDING -> {
                running.ended(Kind.SNOOZED, null);
                running.markReturning();
            }
            case LOST -> running.ended(Kind.LOST, null);
        }
    }

    /** Returns the end of an attempt whose handler returned. */
    Finish ofReturn(RunningJob running, @Nullable Object returned) {
        Outcome outcome = returned instanceof Outcome decided ? decided : new Outcome.Completed(returned);
        if (outcome instanceof Outcome.Completed completed) {
            Object result = completed.result();
            String text = null;
            if (result != null) {
                try {
                    text = json.write(result);
                } catch (IllegalArgumentException e) {
                    throw new PermanentJobFailure("its result " + e.getMessage(), e);
                }
            }
            return finish(running, JobStatus.COMPLETED, text, null, 0, 0);
        } else if (outcome instanceof Outcome.Snoozed snoozed) {
            return finish(
                    running, JobStatus.PENDING, null, null, snoozed.delay().toMillis(), 1);
        } else if (outcome instanceof Outcome.Retried retried) {
            return retry(running, retried.reason(), retried.delay().toMillis(), null);
        }
        return failed(running, ((Outcome.Failed) outcome).reason(), null);
    }

    /** Returns the end of an attempt whose handler threw an exception. */
    Finish ofFailure(RunningJob running, Throwable failure) {
        try {
            return decide(running, failure);
        } catch (Throwable e) {
            // A backoff strategy, a logger or this class failed: the job must end nevertheless.
            logBug(running, e);
            return finish(running, JobStatus.FAILED, null, ErrorText.storable(e), 0, 0);
        }
    }

    private void logBug(RunningJob running, Throwable bug) {
        try {
            rows.log(
                    log,
                    Level.ERROR,
                    "Job %s: failed, no further attempt".formatted(running.name()),
                    "Job {} ({}): failed, no further attempt: the failure of its handler could not be processed",
                    running.name(),
                    running.id(),
                    ErrorText.loggable(bug));
        } catch (RuntimeException | Error e) {
            // The logger failed: the end of the job is written nevertheless.
            bug.addSuppressed(e);
        }
    }

    private Finish decide(RunningJob running, Throwable failure) {
        Stop stop = running.stopReason();
        boolean late = failure instanceof JobTimeoutException;
        if (stop == Stop.DRAIN && !late) {
            log.info(
                    "Job {} ({}): interrupted because this node drains; another node will run it",
                    running.name(),
                    running.id());
            running.ended(Kind.RETURNED, null);
            return running.givenBack(Duration.ZERO);
        }
        if (stop == Stop.LOST) {
            // The end is discarded, and there is no next attempt here.
            running.ended(Kind.LOST, failure);
            return running.givenBack(Duration.ZERO);
        }
        if (stop == null && failure instanceof RateLimitExceededException limited) {
            return snooze(running, limited);
        }
        Throwable cause = failure;
        if (stop == Stop.TIMEOUT && !late) {
            cause = new JobTimeoutException(
                    "the attempt took longer than "
                            + PlainText.duration(
                                    Objects.requireNonNull(running.limits().timeout())),
                    failure);
        }
        running.ended(Kind.FAILED, cause);
        if (cause instanceof PermanentJobFailure || running.limits().isPermanent(cause)) {
            return failed(running, ErrorText.storable(cause), cause);
        }
        JobHandler.Limits limits = running.limits();
        double wait = limits.backoff().delay(running.attempt(), cause).toMillis();
        long jittered = (long) (wait * (1 + limits.jitter() * (2 * random.nextDouble() - 1)));
        return retry(running, ErrorText.storable(cause), Math.max(0, jittered), cause);
    }

    /** Exceeding a rate limit is no failure. The delay is random, so that jobs of the same limit do not return all at once. */
    private Finish snooze(RunningJob running, RateLimitExceededException limited) {
        long least = Math.max(
                RATE_LIMIT_DELAY.toMillis(), limited.decision().retryAfter().toMillis());
        running.ended(Kind.SNOOZED, null);
        return finish(running, JobStatus.PENDING, null, null, (long) (least * (1 + random.nextDouble())), 1);
    }

    /** Fails the job permanently. The only place that logs the stack trace of a failure. */
    private Finish failed(RunningJob running, String error, @Nullable Throwable cause) {
        rows.log(
                log,
                Level.ERROR,
                "Job %s: failed, no further attempt".formatted(running.name()),
                "Job {} ({}): failed at attempt {} of {}, no further attempt: {}",
                running.name(),
                running.id(),
                running.attempt(),
                running.maxAttempts(),
                ErrorText.firstLine(error),
                cause == null ? null : ErrorText.loggable(cause));
        return finish(running, JobStatus.FAILED, null, error, 0, 0);
    }

    private Finish retry(RunningJob running, String error, long delayMillis, @Nullable Throwable cause) {
        if (running.attempt() >= running.maxAttempts()) {
            return failed(running, error, cause);
        }
        rows.log(
                log,
                Level.INFO,
                "Job %s: failed, to be retried".formatted(running.name()),
                "Job {} ({}): attempt {} of {} failed, next attempt in {} ms: {}",
                running.name(),
                running.id(),
                running.attempt(),
                running.maxAttempts(),
                delayMillis,
                ErrorText.firstLine(error));
        monitor.retried(running.name());
        return finish(running, JobStatus.PENDING, null, error, delayMillis, 0);
    }

    private Finish finish(
            RunningJob running,
            JobStatus status,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            int givenBack) {
        long ran = node.nanos() - running.startedAt();
        running.ended(ending(status, givenBack), running.failure());
        running.ranFor(ran);
        running.recordedError(error);
        if (status == JobStatus.PENDING) {
            running.markReturning();
        }
        return new Finish(
                running.key(),
                status,
                result,
                error == null ? null : ErrorText.storable(error),
                delayMillis,
                givenBack,
                status == JobStatus.COMPLETED ? null : running.state().lateCheckpoint(),
                running.state().takeProgress(),
                retention(running, status),
                ran / 1_000_000,
                running.failure() instanceof JobTimeoutException);
    }

    private static Kind ending(JobStatus status, int givenBack) {
        return switch (status) {
            case COMPLETED -> Kind.COMPLETED;
            case PENDING -> givenBack > 0 ? Kind.SNOOZED : Kind.RETRIED;
            case CLAIMED, RUNNING, FAILED, CANCELLED, ABANDONED -> Kind.FAILED;
        };
    }

    /** Returns the retention of the handler; zero deletes completed jobs, while failed ones are kept as the cluster is configured. */
    private @Nullable Duration retention(RunningJob running, JobStatus status) {
        Duration own = running.limits().retention();
        if (own != null && own.isZero() && (isAwaited(running) || node.isStepped())) {
            // Kept until the waiting job, or the test, has read it.
            return SHORTEST_RETENTION;
        }
        boolean kept = status == JobStatus.COMPLETED || (status.isFinal() && own != null && !own.isZero());
        return kept ? own : null;
    }
}

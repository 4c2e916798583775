// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.internal.workflow.RunRecorder.Write;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.DatabaseFailed;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.Step;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Executes attempts of steps and of their compensations, and records them: a transactional step and its record share one
 * transaction. Tells the step's own failures, which count as attempts, from failures of the database, which do not.
 */
final class StepExecutor {

    private static final Logger log = GuardedLogger.of(StepExecutor.class);

    private final StepRuntime runtime;
    private final WorkflowVersion version;
    private final Claim job;
    private final WorkflowHistory history;
    private final RunRecorder recorder;
    private final List<Attempt> interruptedByDatabase = new CopyOnWriteArrayList<>();

    StepExecutor(StepRuntime runtime, WorkflowVersion version, Claim job, WorkflowHistory history) {
        this.runtime = runtime;
        this.version = version;
        this.job = job;
        this.history = history;
        this.recorder = history.recorder();
    }

    /**
     * What the steps of all runs of a node are executed with, and when they are retried.
     *
     * @param transactions of transactional steps
     * @param branches executes parallel steps
     */
    record StepRuntime(
            WorkflowSettings settings,
            PlatformTransactionManager transactions,
            JobMonitor monitor,
            StepDeadlines deadlines,
            Executor branches,
            LongSupplier nanos,
            RandomGenerator random,
            StepProbe probe,
            RowLog rows) {

        /** Returns whether a step is not retried after that attempt. */
        boolean isLastAttempt(Step<?> step, int attempt, Throwable cause) {
            Integer own = step.maxAttempts();
            return attempt >= (own != null ? own : settings.attempts()) || cause instanceof NonRetryableJobException;
        }

        /** Returns whether a compensation is not retried after that attempt; the attempts of its step do not limit it. */
        boolean isLastCompensationAttempt(int attempt, Throwable cause) {
            return attempt >= settings.attempts() || cause instanceof NonRetryableJobException;
        }

        /** Returns the pause after that many failed attempts, with jitter: steps that failed together are not retried together. */
        Duration pauseBeforeRetry(Step<?> step, int failedAttempts, Throwable cause) {
            BackoffStrategy own = step.backoff();
            Duration pause = (own != null ? own : settings.backoff()).delay(failedAttempts, cause);
            double jitter = settings.jitter() * (2 * random.nextDouble() - 1);
            return Duration.ofMillis((long) (pause.isNegative() ? 0 : pause.toMillis() * (1 + jitter)));
        }

        long millisSince(long beganNanos) {
            return (nanos.getAsLong() - beganNanos) / 1_000_000;
        }
    }

    /** An attempt of a step, or of its compensation, and how its outcomes are recorded. */
    interface Attempt {

        Step<?> step();

        boolean isCompensation();

        @Nullable
        Object call() throws Exception;

        StepRow completed(@Nullable Object returned, long ranMillis);

        StepRow failed(AttemptFailed failure);

        /** The attempt does not count, and is repeated at that time. */
        StepRow repeated(String error, Instant next);
    }

    /** An attempt has failed by its own fault. */
    static final class AttemptFailed extends Exception {
        private static final long serialVersionUID = 1L;
        private final long ranMillis;

        AttemptFailed(Throwable cause, long ranMillis) {
            super(null, cause, false, false);
            this.ranMillis = ranMillis;
        }

        @Override
        public synchronized Throwable getCause() {
            return Objects.requireNonNull(super.getCause());
        }

        long ranMillis() {
            return ranMillis;
        }

        /** Returns the error as it is recorded. */
        String text() {
            return ErrorText.storable(getCause());
        }
    }

    /** A step has exceeded its timeout. */
    static final class StepTimeout extends RuntimeException {
        private static final long serialVersionUID = 1L;

        StepTimeout(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /** Returns the rows of the attempts that a failure of the database has ended: its error, and when they are repeated. */
    List<StepRow> repeatedRows(String error, Instant next) {
        return interruptedByDatabase.stream()
                .map(attempt -> attempt.repeated(error, next))
                .toList();
    }

    /** Executes an attempt and records that it has completed. */
    void execute(Attempt attempt) throws AttemptFailed {
        long began = runtime.nanos().getAsLong();
        Step<?> step = attempt.step();
        ObservedStep.observe(runtime.monitor(), version, step.name(), job.id(), attempt.isCompensation(), () -> {
            try {
                Object returned = step.isTransactional()
                        ? executeInTransaction(attempt, began)
                        : executeAndRecord(attempt, began);
                runtime.probe().after(job, step.name(), attempt.isCompensation());
                return returned;
            } catch (WorkflowSuspension e) {
                if (e.reason() instanceof DatabaseFailed) {
                    interruptedByDatabase.add(attempt);
                }
                throw e;
            } catch (Throwable e) {
                if (job.stopReason() != null) {
                    // Not the step's own fault: the next execution starts it again.
                    throw recorder.suspendToStop();
                }
                throw new AttemptFailed(e, runtime.millisSince(began));
            }
        });
    }

    private @Nullable Object executeAndRecord(Attempt attempt, long began) throws Exception {
        Object returned = call(attempt);
        StepRow row = attempt.completed(returned, runtime.millisSince(began));
        try {
            recorder.record(row, null);
        } catch (DataAccessException e) {
            throw rejectedResult(e);
        }
        return returned;
    }

    /** The database would reject the values again with each attempt. */
    private static NonRetryableJobException rejectedResult(DataAccessException rejection) {
        return new NonRetryableJobException(
                "The database rejected the result of the step: " + rejection.getMessage(), rejection);
    }

    private @Nullable Object call(Attempt attempt) throws Exception {
        Step<?> step = attempt.step();
        history.stepBegins();
        try (StepDeadlines.Deadline deadline = runtime.deadlines().begin(job, step)) {
            Runnable release = () -> recordOverdue(attempt, deadline);
            job.onRelease(release);
            try {
                runtime.probe().before(job, step.name(), attempt.isCompensation());
                Object returned = attempt.call();
                Object result =
                        step.isTransactional() ? AsyncResults.requireFinished(returned) : AsyncResults.await(returned);
                deadline.requireInTime();
                return result;
            } catch (Exception e) {
                if (deadline.hasPassed() && job.stopReason() == null && !(e instanceof StepTimeout)) {
                    throw new StepTimeout(
                            "The step exceeded its timeout of "
                                    + PlainText.duration(Objects.requireNonNull(step.timeout())),
                            e);
                }
                throw e;
            } finally {
                job.forgetRelease(release);
            }
        } finally {
            history.stepEnds();
            Thread.interrupted();
        }
    }

    /**
     * Counts the attempt of a step that still runs when the node leaves, if its code has exceeded its timeout. Otherwise the next
     * node starts the step again. A step that waits for a connection, or whose result is being written, is not overdue.
     */
    private void recordOverdue(Attempt attempt, StepDeadlines.Deadline deadline) {
        Step<?> step = attempt.step();
        OptionalLong ran = deadline.overdueNanos();
        Thread thread = deadline.thread();
        if (ran.isEmpty() || thread == null) {
            return;
        }
        var failure = new StepTimeout(
                "The step exceeded its timeout of %s and ignored the interrupt until the node left"
                        .formatted(PlainText.duration(Objects.requireNonNull(step.timeout()))),
                null);
        // The stack of the step's thread shows where it hangs.
        failure.setStackTrace(thread.getStackTrace());
        try {
            if (!recorder.recordFailedAttempt(
                    attempt.failed(new AttemptFailed(failure, ran.getAsLong() / 1_000_000)))) {
                log.debug(
                        "Workflow run {}: an outcome of step '{}' is recorded already, or the claim is lost",
                        job.id(),
                        step.name());
            }
        } catch (RuntimeException e) {
            runtime.rows()
                    .warn(
                            log,
                            "Workflow %s: failed attempt not recorded".formatted(version.label()),
                            "Workflow {} run {}: step '{}' exceeded its timeout, but the failed attempt could not be recorded;"
                                    + " the next node starts the step again without counting it",
                            version.label(),
                            job.id(),
                            step.name(),
                            e);
        }
    }

    // Transactional steps -----------------------------------------------------------------------------------

    private @Nullable Object executeInTransaction(Attempt attempt, long began) throws Exception {
        Step<?> step = attempt.step();
        TransactionStatus status = begin(step);
        var completion = new Completion();
        if (TransactionSynchronizationManager.isSynchronizationActive()) {
            TransactionSynchronizationManager.registerSynchronization(completion);
        }
        Object returned;
        Write write;
        try {
            recorder.makeReadCommitted();
            returned = call(attempt);
            // Writes that an entity manager holds back must precede the proof of the claim.
            status.flush();
            if (!recorder.joinsTransaction()) {
                throw new NonRetryableJobException(
                        "The transactions of the application do not use the DataSource of the cluster: use a step instead of a transactionalStep");
            }
            write = recordInTransaction(attempt.completed(returned, runtime.millisSince(began)));
        } catch (Throwable e) {
            rollBack(status, e);
            throw e;
        }
        try {
            runtime.transactions().commit(status);
        } catch (RuntimeException e) {
            requireCommitted(completion, step, e);
        }
        recorder.committed(write);
        return returned;
    }

    private Write recordInTransaction(StepRow row) {
        try {
            return recorder.writeInTransaction(row);
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.REJECTED) {
                throw rejectedResult(e);
            }
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.ABORTED) {
                throw new IllegalStateException(
                        "The transaction of the step was aborted by a database error that the step caught. Let that exception"
                                + " propagate, or run the statement that may fail in a nested transaction (a savepoint).",
                        e);
            }
            throw e;
        }
    }

    /**
     * Handles an exception of a commit. A callback that fails after the commit (sending a mail, say) does not change that the step
     * has completed. A failure that has prevented the commit is the step's own, unless it is the database's.
     */
    private void requireCommitted(Completion completion, Step<?> step, RuntimeException failure) {
        if (completion.status == TransactionSynchronization.STATUS_COMMITTED) {
            runtime.rows()
                    .warn(
                            log,
                            "Workflow %s: failure after a commit".formatted(version.label()),
                            "Workflow {} run {}: step '{}' is completed and committed, but a callback after its commit failed",
                            version.label(),
                            job.id(),
                            step.name(),
                            ErrorText.loggable(failure));
        } else if (!RunRecorder.isOfDatabase(failure)
                && (completion.status == TransactionSynchronization.STATUS_ROLLED_BACK
                        || failure instanceof UnexpectedRollbackException
                        || DatabaseFailure.kind(failure).isAnswered())) {
            throw failure;
        } else {
            // The transaction may be committed nevertheless: the next execution reads its record.
            throw recorder.suspendBecause(new DatabaseFailed(failure));
        }
    }

    private static final class Completion implements TransactionSynchronization {

        private int status = STATUS_UNKNOWN;

        @Override
        public void afterCompletion(int completed) {
            status = completed;
        }
    }

    private TransactionStatus begin(Step<?> step) {
        var definition = new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        Duration timeout = step.timeout();
        if (timeout != null) {
            definition.setTimeout(
                    (int) Math.min(Integer.MAX_VALUE, timeout.plusMillis(999).toSeconds()));
        }
        try {
            return runtime.transactions().getTransaction(definition);
        } catch (TransactionException e) {
            if (DatabaseFailure.kind(e).canBeginLater()) {
                throw recorder.suspendBecause(new DatabaseFailed(e));
            }
            // Each attempt would fail again.
            throw e;
        }
    }

    private void rollBack(TransactionStatus status, Throwable cause) {
        try {
            if (!status.isCompleted()) {
                runtime.transactions().rollback(status);
            }
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }
}

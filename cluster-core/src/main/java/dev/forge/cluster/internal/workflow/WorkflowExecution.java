// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.database.failure.Causes;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.StepExecutor.StepRuntime;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.DatabaseFailed;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.HistoryMismatch;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Interruption;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.internal.workflow.store.WorkflowJobs;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * One execution of a workflow's method, from its first line to where it ends or is suspended, and what then becomes of the run
 * and its job: it waits, compensates or ends.
 */
final class WorkflowExecution {

    private static final Logger log = GuardedLogger.of(WorkflowExecution.class);

    private final WorkflowEngine engine;
    private final WorkflowHandler handler;
    private final Claim job;
    private final RecordedRun recorded;
    private final RunRecorder recorder;
    private final WorkflowHistory history;
    private final StepExecutor executor;
    private final WorkflowSteps steps;
    private final DefaultWorkflowContext context;
    private final WorkflowCompensation compensation;
    private boolean isRepeated;

    WorkflowExecution(WorkflowEngine engine, WorkflowHandler handler, Claim job, RecordedRun recorded) {
        this.engine = engine;
        this.handler = handler;
        this.job = job;
        this.recorded = recorded;
        StepRuntime runtime = engine.stepRuntime();
        WorkflowVersion version = handler.version();
        this.recorder = new RunRecorder(
                engine.statements(),
                engine.runs(),
                job,
                recorded,
                engine.limits().historyBytes());
        this.history = new WorkflowHistory(recorder, engine.signals(), engine.json(), engine.databaseNanos(), recorded);
        this.executor = new StepExecutor(runtime, version, job, history);
        this.steps = new WorkflowSteps(runtime, version, job, history, executor);
        var awaited = new AwaitedJobs(engine, version, job, history, steps);
        this.context = new DefaultWorkflowContext(job, steps, awaited, engine.json());
        this.compensation = new WorkflowCompensation(runtime, recorded, job, executor, awaited);
    }

    /** Runs the method; returns the outcome of the job. */
    Object run() throws Throwable {
        try {
            return execute();
        } finally {
            if (!isRepeated) {
                engine.pauses().forget(job.id());
            }
        }
    }

    private Object execute() throws Throwable {
        Object result = null;
        Throwable failure = null;
        try {
            result = handler.code().run(context, input());
        } catch (Throwable e) {
            failure = e;
        }
        if (result != null && AsyncResults.isAsync(result)) {
            // Its code may still use the context, on other threads.
            AsyncResults.cancel(result);
            failure = new NonRetryableJobException(
                    "The workflow method returned a future (%s): wait for futures inside of steps, and return the value itself"
                            .formatted(result.getClass().getName()));
        }
        WorkflowSuspension suspension = recorder.suspension();
        if (suspension != null) {
            if (failure != suspension) {
                log.warn(
                        "Workflow {} run {}: {} swallowed the suspension error; let it propagate. The run is suspended"
                                + " nevertheless.",
                        handler.version().label(),
                        job.id(),
                        handler.description());
            }
            return suspended(suspension);
        }
        if (job.stopReason() != null) {
            throw failure != null ? failure : new InterruptedException("the node leaves");
        }
        try {
            return ended(result, failure);
        } catch (WorkflowSuspension e) {
            return suspended(e);
        }
    }

    /** Calls the method with the recorded history only; returns the first difference, if there is one. */
    Optional<String> replay() {
        Object input;
        try {
            input = input();
        } catch (NonRetryableJobException e) {
            return Optional.of(ErrorText.firstLine(String.valueOf(e.getMessage())));
        }
        Throwable failure = null;
        try {
            handler.code().run(context, input);
        } catch (Throwable e) {
            failure = e;
        }
        WorkflowSuspension suspension = recorder.suspension();
        boolean completed = recorded.status() == WorkflowStatus.COMPLETED;
        boolean mayFail = switch (recorded.status()) {
            case COMPENSATING, COMPENSATED, FAILED, RETIRED_UNRESUMABLE, CANCELLED_BY_OPERATOR -> true;
            case RUNNING, WAITING, COMPLETED, BLOCKED_MISSING_VERSION, BLOCKED_SIGNATURE_MISMATCH -> false;
        };
        if (suspension != null) {
            if (suspension.reason() instanceof HistoryMismatch mismatch) {
                return Optional.of(mismatch.message());
            }
            if (suspension.reason() instanceof DatabaseFailed database) {
                throw new IllegalStateException("The database failed during the replay", database.cause());
            }
            String notReached = notReached();
            return notReached == null && completed
                    ? Optional.of("The recorded run completed after %d calls, but the method calls %s"
                            .formatted(recorded.steps().size(), history.firstIncomplete()))
                    : Optional.ofNullable(notReached);
        }
        String differing = notReplayed(failure);
        if (differing == null && !mayFail && failure != null) {
            differing = "The recorded run %s, but the method failed: %s"
                    .formatted(completed ? "completed" : "has not failed", ErrorText.brief(failure));
        }
        return Optional.ofNullable(differing);
    }

    private @Nullable Object input() {
        Type type = handler.inputType();
        String input = recorded.input();
        if (type == null || input == null) {
            return null;
        }
        try {
            return engine.json().read(input, type);
        } catch (RuntimeException e) {
            throw new NonRetryableJobException(
                    "The input of the run cannot be read as %s: %s".formatted(type.getTypeName(), e.getMessage()), e);
        }
    }

    // The method has ended ----------------------------------------------------------------------------------

    private Object ended(@Nullable Object result, @Nullable Throwable failure) {
        // Before the compensation: it would miss the steps that the method has not replayed.
        String mismatch = notReplayed(failure);
        if (mismatch != null) {
            return block(mismatch);
        }
        if (recorder.isCompensating()) {
            return compensate();
        }
        if (failure != null) {
            return fail(failure);
        }
        String json;
        try {
            json = result == null ? null : engine.json().write(result);
        } catch (IllegalArgumentException e) {
            return fail(new NonRetryableJobException("The result of the run " + e.getMessage(), e));
        }
        return end(WorkflowStatus.COMPLETED, json, null);
    }

    /** Returns which recorded call the ended method has not made; null if it has made all. */
    private @Nullable String notReplayed(@Nullable Throwable failure) {
        StepRow missing = history.firstNotReplayed();
        return missing == null
                ? null
                : "%s, but the method %s before that call%s"
                        .formatted(
                                WorkflowHistory.mismatchAt(missing),
                                failure == null ? "returned" : "failed",
                                failure == null ? "" : ": " + ErrorText.brief(failure));
    }

    /** Returns which call is recorded behind the one at which a replay was suspended; null if there is none. */
    private @Nullable String notReached() {
        StepRow missing = history.firstNotReplayed();
        return missing == null
                ? null
                : "%s, but the method calls %s before it, which has not completed"
                        .formatted(WorkflowHistory.mismatchAt(missing), history.firstIncomplete());
    }

    private Object fail(Throwable failure) {
        String error = ErrorText.storable(failure);
        int toCompensate = steps.compensables().size();
        engine.stepRuntime()
                .rows()
                .warn(
                        log,
                        "Workflow %s: runs failed".formatted(handler.version().label()),
                        "Workflow {} run {}: failed, {}: {}",
                        handler.version().label(),
                        job.id(),
                        toCompensate == 0 ? "nothing to compensate" : "compensating " + toCompensate + " steps",
                        ErrorText.brief(failure),
                        ErrorText.loggable(failure));
        if (toCompensate == 0) {
            return end(WorkflowStatus.FAILED, null, error);
        }
        boolean claimHeld;
        try {
            claimHeld = recorder.beginCompensation(error);
        } catch (DataAccessException e) {
            recorder.discardPendingRows();
            claimHeld = recorder.beginCompensation(error);
        }
        return claimHeld ? compensate() : RecordedOutcome.LOST;
    }

    /**
     * Fails the run: the database rejects a value without which it can neither end nor wait. The compensation is left to the next
     * claim: this job has announced its end, and a lost claim could not interrupt the compensation any more.
     */
    private Object failRejected(String value, DataAccessException rejection) {
        recorder.discardPendingRows();
        String error = "The database rejected %s: %s"
                .formatted(value, ErrorText.bounded(String.valueOf(rejection.getMessage()), ErrorText.LONGEST_MESSAGE));
        engine.stepRuntime()
                .rows()
                .warn(
                        log,
                        "Workflow %s: runs failed".formatted(handler.version().label()),
                        "Workflow {} run {}: failed. {}",
                        handler.version().label(),
                        job.id(),
                        error);
        if (steps.compensables().isEmpty()) {
            return end(WorkflowStatus.FAILED, null, ErrorText.storable(error));
        }
        return recorder.beginCompensation(ErrorText.storable(error))
                ? Outcome.snooze(Duration.ZERO)
                : RecordedOutcome.LOST;
    }

    private Object end(WorkflowStatus status, @Nullable String result, @Nullable String error) {
        job.ending();
        WriteResult written;
        try {
            written = recorder.end(status, result, error);
        } catch (DataAccessException e) {
            if (status == WorkflowStatus.COMPLETED) {
                return failRejected("the result of the run", e);
            }
            recorder.discardPendingRows();
            written = recorder.end(status, result, error);
        }
        if (written == WriteResult.WRITTEN && WorkflowJobs.isAwaitedByRun(job.claimed())) {
            // The trigger of the database does not see the parent under a snapshot that the application may have
            // chosen.
            engine.freeParent(job.id());
        }
        return switch (written) {
            case CLAIM_LOST -> RecordedOutcome.LOST;
            // If an operator has ended the run, its job is cancelled, and snoozing it reports the lost claim.
            case CANCELLED, SUPERSEDED -> Outcome.snooze(Duration.ZERO);
            case WRITTEN -> {
                job.recordedError(error != null || status == WorkflowStatus.COMPLETED ? error : recordedError());
                yield status == WorkflowStatus.COMPLETED ? RecordedOutcome.COMPLETED : RecordedOutcome.FAILED;
            }
        };
    }

    /** Returns why the run was compensated, which an earlier execution may have recorded. */
    private @Nullable String recordedError() {
        try {
            return engine.reports().find(job.id()).map(WorkflowInfo::lastError).orElse(null);
        } catch (DataAccessException e) {
            log.debug(
                    "Workflow {} run {}: could not read its error",
                    handler.version().label(),
                    job.id(),
                    e);
            return null;
        }
    }

    private Object compensate() {
        WorkflowCompensation.Result result = compensation.run(steps.compensables());
        return result instanceof WorkflowCompensation.Result.End end
                ? end(end.status(), null, end.error())
                : suspend(((WorkflowCompensation.Result.Wait) result).waiting(), null);
    }

    // The method was suspended ------------------------------------------------------------------------------

    private Object suspended(WorkflowSuspension suspension) throws InterruptedException {
        WorkflowSuspension.Reason reason = suspension.reason();
        if (reason instanceof Waiting waiting) {
            return suspend(waiting, null);
        } else if (reason instanceof HistoryMismatch mismatch) {
            return block(mismatch.message());
        } else if (reason instanceof DatabaseFailed failed) {
            return repeat(failed.cause());
        }
        return switch ((Interruption) reason) {
            case HISTORY_EXHAUSTED -> {
                // What is recorded behind the end of the replay would not be compensated.
                String notReached = notReached();
                if (notReached != null) {
                    yield block(notReached);
                }
                recorder.clearSuspension();
                try {
                    yield compensate();
                } catch (WorkflowSuspension e) {
                    yield suspended(e);
                }
            }
            case CANCELLED, SUPERSEDED -> Outcome.snooze(Duration.ZERO);
            case CLAIM_LOST -> RecordedOutcome.LOST;
            case NODE_STOPPING -> throw new InterruptedException("the node leaves");
        };
    }

    /** Returns how long to wait after a failure of the database. */
    private Duration nextPause() {
        isRepeated = true;
        if (recorder.hasWritten()) {
            engine.pauses().forget(job.id());
        }
        return engine.pauses().next(job.id());
    }

    /** Repeats the run later, because the database has failed, and stores that. */
    private Object repeat(Throwable cause) {
        Duration pause = nextPause();
        if (DatabaseFailure.kind(cause) == DatabaseFailure.Kind.LOCK_TIMEOUT) {
            // The cause cannot be stored: the row is locked.
            log.info(
                    "Workflow {} run {}: another transaction has locked its row; repeated in {} ms",
                    handler.version().label(),
                    job.id(),
                    pause.toMillis());
            return Outcome.snooze(pause);
        }
        // The message of the driver or the server: those of the exceptions around it begin with the statement.
        String brief = ErrorText.brief(Causes.root(cause));
        log.info(
                "Workflow {} run {}: the database failed; repeated in {} ms: {}",
                handler.version().label(),
                job.id(),
                pause.toMillis(),
                brief);
        String error = ErrorText.storable("Repeated because the database failed, no attempt is counted: " + brief);
        Instant next = history.databaseNow().plus(pause);
        List<StepRow> rows = executor.repeatedRows(error, next);
        try {
            if (rows.isEmpty()) {
                recorder.storeRepetition(error);
            } else {
                job.ending();
                return recorder.suspendRun(Waiting.until(next, rows), null)
                        ? RecordedOutcome.SNOOZED
                        : RecordedOutcome.LOST;
            }
        } catch (DataAccessException | TransactionException e) {
            log.debug("Workflow run {}: the cause of its repetition could not be stored", job.id(), e);
        }
        return Outcome.snooze(pause);
    }

    private Object block(String mismatch) {
        engine.stepRuntime()
                .rows()
                .warn(
                        log,
                        "Workflow %s: runs blocked".formatted(handler.version().label()),
                        "Workflow {} run {}: blocked. {}. Deploy a matching method, then continue the run with Workflows.retry.",
                        handler.version().label(),
                        job.id(),
                        mismatch);
        return suspend(Waiting.until(null, List.of()), mismatch);
    }

    private Object suspend(Waiting waiting, @Nullable String mismatch) {
        job.ending();
        try {
            boolean released = recorder.suspendRun(waiting, mismatch);
            if (released && waiting.job() != null) {
                // The run may have started a job or a child, which any node may claim.
                engine.announce();
            }
            return released ? RecordedOutcome.SNOOZED : RecordedOutcome.LOST;
        } catch (DataAccessException | TransactionException e) {
            if (e instanceof DataAccessException rejection
                    && DatabaseFailure.kind(e) == DatabaseFailure.Kind.REJECTED
                    && !recorder.isCompensating()) {
                return failRejected("what the run waits for", rejection);
            }
            Duration pause = nextPause();
            log.info(
                    "Workflow {} run {}: could not be suspended; repeated in {} ms: {}",
                    handler.version().label(),
                    job.id(),
                    pause.toMillis(),
                    ErrorText.brief(e));
            return Outcome.snooze(pause);
        }
    }
}

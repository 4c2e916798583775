package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.Causes;
import dev.forge.cluster.internal.job.JobStore;
import dev.forge.cluster.internal.job.RecordedOutcome;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.AsyncResults;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.WorkflowSteps.Undoable;
import dev.forge.cluster.internal.workflow.WorkflowSteps.Undoing;
import dev.forge.cluster.internal.workflow.WorkflowStore.Loaded;
import dev.forge.cluster.internal.workflow.WorkflowStore.Written;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Plain;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waits;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * One execution of a workflow's method, from its first line to where it has to stop, and how the run's job goes on then: it
 * waits, it has ended, or it undoes.
 */
final class WorkflowRun {

    private static final WorkflowJobs JOBS = new WorkflowJobs();

    private static final Logger log = GuardedLogger.of(WorkflowRun.class);

    private final WorkflowEngine engine;
    private final WorkflowHandler handler;
    private final RunningJob job;
    private final Loaded loaded;
    private final WorkflowHistory memory;
    private final WorkflowSteps steps;
    private final DefaultWorkflowContext context;
    private boolean repeats;

    WorkflowRun(WorkflowEngine engine, WorkflowHandler handler, RunningJob job, Loaded loaded) {
        this.engine = engine;
        this.handler = handler;
        this.job = job;
        this.loaded = loaded;
        this.memory = new WorkflowHistory(
                engine.store(),
                engine.statements(),
                engine.json(),
                engine.tools().nanos(),
                job,
                loaded,
                engine.limits().historyBytes());
        this.steps = new WorkflowSteps(engine.tools(), handler.version(), job, memory);
        this.context = new DefaultWorkflowContext(engine, handler.version(), job, memory, steps);
    }

    /** Runs the method; answers what became of the job. */
    Object run() throws Throwable {
        try {
            return execute();
        } finally {
            if (!repeats) {
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
            failure = new PermanentJobFailure(
                    "its method returned a future (%s): wait for futures inside of steps, and return the value itself"
                            .formatted(result.getClass().getName()));
        }
        WorkflowSuspension pause = memory.unwound();
        if (pause != null) {
            if (failure != pause) {
                log.warn(
                        "workflow {} run {}: {} has caught the error that ends it where it has to wait; it runs again all the same",
                        handler.version().label(),
                        job.id(),
                        handler.description());
            }
            return paused(pause);
        }
        if (job.stopReason() != null) {
            throw failure != null ? failure : new InterruptedException("the node leaves");
        }
        try {
            return ended(result, failure);
        } catch (WorkflowSuspension e) {
            return paused(e);
        }
    }

    private @Nullable Object input() {
        Type type = handler.inputType();
        String input = loaded.input();
        if (type == null || input == null) {
            return null;
        }
        try {
            return engine.json().read(input, type);
        } catch (RuntimeException e) {
            throw new PermanentJobFailure(
                    "its input cannot be read as %s: %s".formatted(type.getTypeName(), e.getMessage()), e);
        }
    }

    // The method has ended ----------------------------------------------------------------------------------

    private Object ended(@Nullable Object result, @Nullable Throwable failure) {
        // Before anything is undone: what the method has not come to would be left out.
        StepRow unmet = memory.unmet();
        if (unmet != null) {
            return block("%s, but the method has %s before it came to that%s"
                    .formatted(
                            WorkflowHistory.text(unmet),
                            failure == null ? "returned" : "failed",
                            failure == null ? "" : ": " + ErrorText.brief(failure)));
        }
        if (memory.isUnwinding()) {
            return compensate();
        }
        if (failure != null) {
            return fail(failure);
        }
        String json;
        try {
            json = result == null ? null : engine.json().write(result);
        } catch (IllegalArgumentException e) {
            return fail(new PermanentJobFailure("its result " + e.getMessage(), e));
        }
        return end(WorkflowStatus.COMPLETED, json, null);
    }

    private Object fail(Throwable failure) {
        String error = ErrorText.storable(failure);
        int undoings = steps.undoings().size();
        log.warn(
                "workflow {} run {}: failed, {}: {}",
                handler.version().label(),
                job.id(),
                undoings == 0 ? "there is nothing to undo" : "undoes " + undoings + " steps",
                ErrorText.brief(failure),
                ErrorText.loggable(failure));
        if (undoings == 0) {
            return end(WorkflowStatus.FAILED, null, error);
        }
        boolean ours;
        try {
            ours = memory.beginUnwinding(error);
        } catch (DataAccessException e) {
            memory.forgetUnwritten();
            ours = memory.beginUnwinding(error);
        }
        return ours ? compensate() : RecordedOutcome.LOST;
    }

    /**
     * The database refuses what the run had to write in order to end, or to wait. Undoing is left to the next claim: nobody
     * would stop it here any more, should this one be lost.
     */
    private Object refused(String what, DataAccessException refusal) {
        memory.forgetUnwritten();
        String error = "%s cannot be stored: %s"
                .formatted(what, ErrorText.bounded(String.valueOf(refusal.getMessage()), ErrorText.LONGEST_MESSAGE));
        log.warn("workflow {} run {}: failed, {}", handler.version().label(), job.id(), error);
        if (steps.undoings().isEmpty()) {
            return end(WorkflowStatus.FAILED, null, ErrorText.storable(error));
        }
        return memory.beginUnwinding(ErrorText.storable(error)) ? Outcome.snooze(Duration.ZERO) : RecordedOutcome.LOST;
    }

    private Object end(WorkflowStatus status, @Nullable String result, @Nullable String error) {
        job.returned();
        job.ending();
        Written written;
        try {
            written = memory.end(status, result, error);
        } catch (DataAccessException e) {
            if (status == WorkflowStatus.COMPLETED) {
                return refused("its result", e);
            }
            memory.forgetUnwritten();
            written = memory.end(status, result, error);
        }
        if (written == Written.WRITTEN && JOBS.isAwaited(job.claimed())) {
            // What the database does by itself it does not under the snapshots that an application may have chosen.
            engine.freeParent(job.id());
        }
        return switch (written) {
            case CLAIM_LOST -> RecordedOutcome.LOST;
            // If it was an operator who has ended it, the job is not ours any more, and that will be found out.
            case CALLED_OFF, SUPERSEDED -> Outcome.snooze(Duration.ZERO);
            case WRITTEN -> status == WorkflowStatus.COMPLETED ? RecordedOutcome.COMPLETED : RecordedOutcome.FAILED;
        };
    }

    // The method has ended in the middle --------------------------------------------------------------------

    private Object paused(WorkflowSuspension pause) throws InterruptedException {
        WorkflowSuspension.Why why = pause.why();
        if (why instanceof Waits waits) {
            return suspend(waits, null);
        } else if (why instanceof WorkflowSuspension.Mismatch mismatch) {
            return block(mismatch.message());
        } else if (why instanceof WorkflowSuspension.Unwritten away) {
            return repeat(away.cause());
        }
        return switch ((Plain) why) {
            case MEMORY_ENDS -> {
                memory.forgetEnd();
                try {
                    yield compensate();
                } catch (WorkflowSuspension e) {
                    yield paused(e);
                }
            }
            case CALLED_OFF, SUPERSEDED -> Outcome.snooze(Duration.ZERO);
            case LOST -> RecordedOutcome.LOST;
            case STOPPED -> throw new InterruptedException("the node leaves");
        };
    }

    /** How long to wait after a failure of the database. */
    private Duration pause() {
        repeats = true;
        if (memory.hasAdvanced()) {
            engine.pauses().forget(job.id());
        }
        return engine.pauses().next(job.id());
    }

    /** The database has failed: the run is repeated later, and says why. */
    private Object repeat(Throwable cause) {
        Duration pause = pause();
        if (JobStore.isLocked(cause)) {
            // Nothing can be noted in its row.
            log.info(
                    "workflow {} run {}: another transaction has locked its row, the run is repeated in {} ms",
                    handler.version().label(),
                    job.id(),
                    pause.toMillis());
            return Outcome.snooze(pause);
        }
        // What the driver or the server said: messages of its wrappers begin with our statement.
        String brief = ErrorText.brief(Causes.root(cause));
        log.info(
                "workflow {} run {}: the database failed, the run is repeated in {} ms: {}",
                handler.version().label(),
                job.id(),
                pause.toMillis(),
                brief);
        String error = ErrorText.storable("Repeated because the database failed, no attempt is counted: " + brief);
        Instant next = memory.databaseNow().plus(pause);
        List<StepRow> rows = steps.repeated(error, next);
        try {
            if (rows.isEmpty()) {
                memory.noteRepetition(error);
            } else {
                job.returned();
                job.ending();
                return memory.suspend(Waits.until(next, rows), null) ? RecordedOutcome.PENDING : RecordedOutcome.LOST;
            }
        } catch (DataAccessException | TransactionException e) {
            log.debug("run {}: the cause of its repetition could not be stored", job.id(), e);
        }
        return Outcome.snooze(pause);
    }

    private Object block(String message) {
        log.warn("workflow {} run {}: blocked, {}", handler.version().label(), job.id(), message);
        return suspend(Waits.until(null, List.of()), message);
    }

    private Object suspend(Waits waits, @Nullable String mismatch) {
        job.returned();
        job.ending();
        try {
            boolean back = memory.suspend(waits, mismatch);
            if (back && waits.job() != null) {
                // It has started a job or a child, which others may run as well.
                engine.announce();
            }
            return back ? RecordedOutcome.PENDING : RecordedOutcome.LOST;
        } catch (DataAccessException | TransactionException e) {
            if (e instanceof DataAccessException refusal && JobStore.isRefusal(e) && !memory.isUnwinding()) {
                return refused("what it waits for", refusal);
            }
            Duration pause = pause();
            log.info(
                    "workflow {} run {}: could not go to wait, the run is repeated in {} ms: {}",
                    handler.version().label(),
                    job.id(),
                    pause.toMillis(),
                    ErrorText.brief(e));
            return Outcome.snooze(pause);
        }
    }

    // Undoing -----------------------------------------------------------------------------------------------

    private Object compensate() {
        // What it waits for has been called off with it, and comes first.
        WorkflowInfo child = memory.guarded(this::awaitedChild).orElse(null);
        if (child != null && !child.status().isFinal()) {
            return suspend(context.forChild(child.id()), null);
        }
        List<Undoable> undoings = steps.undoings();
        for (int i = undoings.size() - 1; i >= 0; i--) {
            Undoable undoable = undoings.get(i);
            if (undoable.row().status().equals("completed")) {
                Object hindrance = undoable instanceof Undoing<?> undoing
                        ? undo(undoing)
                        : undo((WorkflowSteps.CompletedChild) undoable);
                if (hindrance != null) {
                    return hindrance;
                }
            }
        }
        // One that has merely failed has compensated what it had done, or had nothing to compensate.
        if (child != null && child.status() == WorkflowStatus.FAILED && hasFailedCompensation(child)) {
            return end(WorkflowStatus.FAILED, null, couldNotBeCompensated(child));
        }
        boolean undone = loaded.cancelled() || !undoings.isEmpty();
        return end(undone ? WorkflowStatus.COMPENSATED : WorkflowStatus.FAILED, null, null);
    }

    private Optional<WorkflowInfo> awaitedChild() {
        return loaded.steps().values().stream()
                .filter(row -> row.kind().equals("child") && row.status().equals("waiting"))
                .map(StepRow::ref)
                .filter(Objects::nonNull)
                .findFirst()
                .flatMap(engine::findChild);
    }

    private static boolean hasFailedCompensation(WorkflowInfo child) {
        return child.steps().stream().anyMatch(step -> step.status().equals("compensation_failed"));
    }

    private static String couldNotBeCompensated(WorkflowInfo child) {
        return ErrorText.storable("its child %s could not be compensated, it is %s: %s"
                .formatted(child.id(), child.status(), child.lastError()));
    }

    /**
     * Lets a completed child compensate what it has done, and waits for it. The attempt that is recorded with that tells a
     * child that has failed to compensate from one that is to try it again.
     */
    private @Nullable Object undo(WorkflowSteps.CompletedChild undoing) {
        StepRow row = undoing.row();
        UUID id = Objects.requireNonNull(row.ref());
        WorkflowInfo child = memory.guarded(() -> engine.findChild(id)).orElse(null);
        if (child != null && !child.status().isFinal()) {
            return suspend(context.forChild(id), null);
        }
        if (child != null && child.status() == WorkflowStatus.COMPENSATED) {
            memory.later(row.compensating("compensated", Math.max(1, row.compensationAttempts()), null, null));
            return null;
        }
        boolean asked = row.compensationAttempts() > 0;
        boolean able = child != null
                && (child.status() == WorkflowStatus.COMPLETED || child.status() == WorkflowStatus.FAILED);
        if (able && !asked) {
            StepRow waiting = row.compensating("completed", 1, null, null);
            String reason = "its parent %s is compensated".formatted(job.id());
            String key = context.key(row);
            return suspend(
                    new Waits(
                            List.of(waiting),
                            null,
                            null,
                            id,
                            () -> engine.store().reopen(id, job.id(), key, reason)),
                    null);
        }
        String error = child == null
                ? "its child %s could not be compensated: its run was deleted".formatted(id)
                : couldNotBeCompensated(child);
        log.warn("workflow {} run {}: {}", handler.version().label(), job.id(), ErrorText.firstLine(error));
        memory.later(row.compensating("compensation_failed", Math.max(1, row.compensationAttempts()), error, null));
        return end(WorkflowStatus.FAILED, null, error);
    }

    /** Undoes a step; answers what became of the job if that was not possible, or not now. */
    private @Nullable Object undo(Undoing<?> undoing) {
        StepRow row = undoing.row();
        Step<?> step = undoing.step();
        Instant again = row.wakeAt();
        if (again != null && again.isAfter(memory.databaseNow())) {
            return suspend(Waits.until(again, List.of()), null);
        }
        try {
            steps.undo(undoing);
            return null;
        } catch (WorkflowSteps.Failed failed) {
            int attempt = undoing.attempt();
            Throwable cause = failed.getCause();
            String error = failed.text();
            if (steps.isLastUndoing(attempt, cause)) {
                log.warn(
                        "workflow {} run {}: step '{}' cannot be undone, attempt {} was the last",
                        handler.version().label(),
                        job.id(),
                        step.name(),
                        attempt,
                        ErrorText.loggable(cause));
                memory.later(row.compensating("compensation_failed", attempt, error, null));
                return end(
                        WorkflowStatus.FAILED,
                        null,
                        ErrorText.storable("step '%s' cannot be undone: %s".formatted(step.name(), error)));
            }
            Instant next = memory.databaseNow().plus(steps.pause(step, attempt, cause));
            return suspend(Waits.until(next, List.of(row.compensating("completed", attempt, error, next))), null);
        }
    }
}

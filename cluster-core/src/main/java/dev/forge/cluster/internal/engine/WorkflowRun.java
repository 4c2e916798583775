package dev.forge.cluster.internal.engine;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.JobInfo;
import dev.forge.cluster.JobOptions;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.Outcome;
import dev.forge.cluster.PermanentJobFailure;
import dev.forge.cluster.Step;
import dev.forge.cluster.StepFailedException;
import dev.forge.cluster.WorkflowContext;
import dev.forge.cluster.WorkflowInfo;
import dev.forge.cluster.WorkflowStatus;
import dev.forge.cluster.internal.engine.Unwinding.Plain;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.NewJob;
import dev.forge.cluster.internal.store.StepRow;
import dev.forge.cluster.internal.store.WorkflowStore;
import dev.forge.cluster.internal.store.WorkflowStore.Claim;
import dev.forge.cluster.internal.store.WorkflowStore.End;
import dev.forge.cluster.internal.store.WorkflowStore.Loaded;
import dev.forge.cluster.internal.store.WorkflowStore.NewRun;
import dev.forge.cluster.internal.store.WorkflowStore.Signal;
import dev.forge.cluster.internal.store.WorkflowStore.Wait;
import dev.forge.cluster.internal.store.WorkflowStore.Written;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.util.ClassUtils;

/**
 * One execution of a workflow's method, from its first line to where it has to stop. What is remembered is answered from
 * memory; the first thing that is not is done, and remembered before the method goes on. In the end it is written how the
 * run's job goes on: it waits, it has ended, or it undoes.
 */
final class WorkflowRun implements WorkflowContext {

    private static final Logger log = LoggerFactory.getLogger(WorkflowRun.class);
    private static final Duration DATABASE_AWAY = Duration.ofMillis(250);
    private static final Duration LONGEST = Duration.ofDays(36_500);

    private final WorkflowEngine engine;
    private final WorkflowStore store;
    private final WorkflowHandler handler;
    private final Running job;
    private final Claim claim;
    private final Loaded loaded;
    private final long loadedAt;
    private final List<Signal> signals;
    private final List<Undoing<?>> undoings = new ArrayList<>();
    /** What is remembered with the next thing that is written. */
    private final List<StepRow> unwritten = new ArrayList<>();

    private final AtomicInteger actions = new AtomicInteger();
    private int position;
    private boolean unwinding;
    private volatile boolean forgiven;
    private volatile @Nullable Unwinding unwound;
    private @Nullable String state;

    WorkflowRun(WorkflowEngine engine, WorkflowHandler handler, Running job, Claim claim, Loaded loaded) {
        this.engine = engine;
        this.store = engine.store();
        this.handler = handler;
        this.job = job;
        this.claim = claim;
        this.loaded = loaded;
        this.loadedAt = engine.nanos();
        this.signals = new ArrayList<>(loaded.signals());
        this.unwinding = loaded.unwinding();
        this.forgiven = job.claimed().recoveries() == 0;
    }

    // The method --------------------------------------------------------------------------------------------

    /** Runs the method; answers what became of the job. */
    Object run() throws Throwable {
        Object result = null;
        Throwable failure = null;
        try {
            result = handler.code().run(this, input());
        } catch (Throwable e) {
            failure = e;
        }
        Unwinding pause = unwound;
        if (pause != null) {
            if (failure != pause) {
                log.warn(
                        "workflow {} run {}: {} has caught the error that ends it where it has to wait; it runs again all the same",
                        handler.version().jobName(),
                        id(),
                        handler.description());
            }
            return paused(pause);
        }
        if (job.stopReason() != null) {
            throw failure != null ? failure : new InterruptedException("the node leaves");
        }
        try {
            return ended(result, failure);
        } catch (Unwinding e) {
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

    private Object ended(@Nullable Object result, @Nullable Throwable failure) throws Throwable {
        if (unwinding) {
            return compensate();
        }
        StepRow unmet = loaded.steps().values().stream()
                .filter(row -> row.position() >= position)
                .min((a, b) -> Integer.compare(a.position(), b.position()))
                .orElse(null);
        if (unmet != null) {
            return block("remembered as number %d is %s, but the method has %s before it came to that%s"
                    .formatted(
                            unmet.position(),
                            text(unmet),
                            failure == null ? "returned" : "failed",
                            failure == null ? "" : ": " + failure));
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

    private Object fail(Throwable failure) throws Throwable {
        String error = Execution.storable(Execution.text(failure));
        log.warn(
                "workflow {} run {}: failed, {}: {}",
                handler.version().jobName(),
                id(),
                undoings.isEmpty() ? "there is nothing to undo" : "undoes " + undoings.size() + " steps",
                failure.toString());
        if (undoings.isEmpty()) {
            return end(WorkflowStatus.FAILED, null, error);
        }
        Written written = written(() -> store.unwind(claim, error, taken()));
        if (written == Written.CLAIM_LOST) {
            return Settled.LOST;
        }
        unwinding = true;
        return compensate();
    }

    private Object end(WorkflowStatus status, @Nullable String result, @Nullable String error) {
        List<StepRow> rows = taken();
        job.returned();
        job.ending();
        Written written = written(() -> store.end(claim, new End(status, result, error, rows, unwinding)));
        return switch (written) {
            case CLAIM_LOST -> Settled.LOST;
            // If it was an operator who has ended it, the job is not ours any more, and that will be found out.
            case CALLED_OFF -> Outcome.snooze(Duration.ZERO);
            case WRITTEN -> status == WorkflowStatus.COMPLETED ? Settled.COMPLETED : Settled.FAILED;
        };
    }

    /** The method has ended in the middle. */
    private Object paused(Unwinding pause) throws Throwable {
        Unwinding.Why why = pause.why();
        if (why instanceof Unwinding.Waits waits) {
            return suspend(waits, null);
        } else if (why instanceof Unwinding.Mismatch mismatch) {
            return block(mismatch.message());
        } else if (why instanceof Unwinding.Unwritten away) {
            log.info(
                    "workflow {} run {}: the database did not answer, it runs again: {}",
                    handler.version().jobName(),
                    id(),
                    away.cause().toString());
            return Outcome.snooze(DATABASE_AWAY);
        }
        return switch ((Plain) why) {
            case MEMORY_ENDS -> {
                unwound = null;
                try {
                    yield compensate();
                } catch (Unwinding e) {
                    yield paused(e);
                }
            }
            case CALLED_OFF -> Outcome.snooze(Duration.ZERO);
            case LOST -> Settled.LOST;
            case STOPPED -> throw new InterruptedException("the node leaves");
        };
    }

    private static void nothing() {}

    private Object block(String message) {
        log.warn("workflow {} run {}: blocked, {}", handler.version().jobName(), id(), message);
        return suspend(new Unwinding.Waits(List.of(), null, null, null, WorkflowRun::nothing), message);
    }

    private Object suspend(Unwinding.Waits waits, @Nullable String mismatch) {
        List<StepRow> rows = mismatch == null ? taken() : new ArrayList<>();
        rows.addAll(waits.rows());
        job.returned();
        job.ending();
        try {
            boolean back = store.suspend(
                    claim,
                    new Wait(
                            rows,
                            waits.until(),
                            waits.signal(),
                            waits.job(),
                            mismatch,
                            job.takeProgress(),
                            loaded.wakeSeq(),
                            unwinding),
                    waits.before());
            if (back && waits.job() != null) {
                // It has started a job or a child, which others may run as well.
                engine.announce();
            }
            return back ? Settled.PENDING : Settled.LOST;
        } catch (DataAccessException | TransactionException e) {
            log.info(
                    "workflow {} run {}: could not go to wait, it runs again: {}",
                    handler.version().jobName(),
                    id(),
                    e.toString());
            return Outcome.snooze(DATABASE_AWAY);
        }
    }

    // Undoing -----------------------------------------------------------------------------------------------

    /** A step that has been done and can be undone. */
    private record Undoing<T>(
            StepRow row, Step<T> step, @Nullable T value) {

        @SuppressWarnings("NullAway") // A step that returns nothing has nothing to hand to its compensation.
        @Nullable
        Object run(Step.Compensation<T> compensation) throws Exception {
            compensation.undo(value);
            return null;
        }
    }

    private Object compensate() throws Throwable {
        for (int i = undoings.size() - 1; i >= 0; i--) {
            if (undoings.get(i).row.status().equals("completed")) {
                Object hindrance = undo(undoings.get(i));
                if (hindrance != null) {
                    return hindrance;
                }
            }
        }
        boolean undone = loaded.cancelled() || !undoings.isEmpty();
        return end(undone ? WorkflowStatus.COMPENSATED : WorkflowStatus.FAILED, null, null);
    }

    private <T> @Nullable Object undo(Undoing<T> undoing) throws Throwable {
        StepRow row = undoing.row;
        Step<T> step = undoing.step;
        Step.Compensation<T> compensation = step.compensation();
        Instant again = row.wakeAt();
        if (compensation == null) {
            return null;
        }
        if (again != null && again.isAfter(databaseNow())) {
            return suspend(new Unwinding.Waits(List.of(), again, null, null, WorkflowRun::nothing), null);
        }
        int attempt = row.compensationAttempts() + 1;
        try {
            perform(
                    () -> undoing.run(compensation),
                    step,
                    (nothing, ran) -> row.compensating("compensated", attempt, null, null));
            return null;
        } catch (Failed failed) {
            Throwable cause = failed.getCause();
            String error = Execution.storable(Execution.text(cause));
            if (attempt >= attempts(step) || cause instanceof PermanentJobFailure) {
                log.warn(
                        "workflow {} run {}: step '{}' cannot be undone, attempt {} was the last",
                        handler.version().jobName(),
                        id(),
                        step.name(),
                        attempt,
                        cause);
                unwritten.add(row.compensating("compensation_failed", attempt, error, null));
                return end(WorkflowStatus.FAILED, null, "step '%s' cannot be undone: %s".formatted(step.name(), error));
            }
            Instant next = databaseNow().plus(pause(step, attempt, cause));
            return suspend(
                    new Unwinding.Waits(
                            List.of(row.compensating("completed", attempt, error, next)),
                            next,
                            null,
                            null,
                            WorkflowRun::nothing),
                    null);
        }
    }

    // Memory ------------------------------------------------------------------------------------------------

    private Unwinding unwind(Unwinding.Why why) {
        synchronized (this) {
            if (unwound == null) {
                unwound = new Unwinding(why);
            }
            return unwound;
        }
    }

    /** What is remembered of the next thing; null if it has not been met before. */
    private @Nullable StepRow next(String kind, String name) {
        if (actions.get() > 0) {
            throw new IllegalStateException(
                    "%s '%s' within a step: only the method itself may use its context".formatted(kind, name));
        }
        Unwinding pause = unwound;
        if (pause != null) {
            throw pause;
        }
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException(
                    "%s '%s' within a transaction: what is remembered must not be rolled back with it. Use a"
                                    .formatted(kind, name)
                            + " transactionalStep, and no @Transactional on the workflow's method.");
        }
        if (job.stopReason() != null) {
            throw unwind(job.stopReason() == Running.Stop.LOST ? Plain.LOST : Plain.STOPPED);
        }
        int at = position++;
        StepRow known = loaded.steps().get(at);
        if (known == null) {
            if (loaded.unwinding()) {
                throw unwind(Plain.MEMORY_ENDS);
            }
            return null;
        }
        if (!known.kind().equals(kind) || !known.name().equals(name)) {
            throw unwind(new Unwinding.Mismatch("remembered as number %d is %s, but the method asks for %s"
                    .formatted(at, text(known), text(StepRow.of(at, name, kind, "")))));
        }
        return known;
    }

    private static String text(StepRow row) {
        return "%s '%s'".formatted(row.kind(), row.name());
    }

    /** What gathers until something is written. */
    private List<StepRow> taken() {
        synchronized (unwritten) {
            return new ArrayList<>(unwritten);
        }
    }

    /** Time and chance are remembered before anything is done with them: who does it again must have the same. */
    private void settleChance() {
        List<StepRow> rows = taken();
        if (rows.stream().anyMatch(row -> row.kind().equals("now") || row.kind().equals("uuid"))) {
            accept(written(() -> store.remember(claim, rows, null)), rows.size());
        }
    }

    private void remember(StepRow row, @Nullable UUID signal) {
        List<StepRow> rows = taken();
        int gathered = rows.size();
        rows.add(row);
        // Whatever interrupted the step must not disturb this.
        Thread.interrupted();
        accept(written(() -> store.remember(claim, rows, signal)), gathered);
    }

    private void accept(Written written, int gathered) {
        if (written == Written.CLAIM_LOST) {
            throw unwind(Plain.LOST);
        }
        synchronized (unwritten) {
            unwritten.subList(0, Math.min(gathered, unwritten.size())).clear();
        }
        if (!forgiven) {
            forgiven = true;
            written(() -> {
                store.forgiveCrashes(claim);
                return written;
            });
        }
        if (written == Written.CALLED_OFF && !unwinding) {
            throw unwind(Plain.CALLED_OFF);
        }
    }

    private interface Write {
        Written run();
    }

    /** Tells what is the database's fault, and therefore none of the run's, from what it refuses to store. */
    private Written written(Write write) {
        try {
            return write.run();
        } catch (DataAccessException e) {
            if (JobStore.isRefusal(e)) {
                throw e;
            }
            throw unwind(new Unwinding.Unwritten(e));
        } catch (TransactionException e) {
            throw unwind(new Unwinding.Unwritten(e));
        }
    }

    @SuppressWarnings("unchecked") // int.class casts nothing, Integer.class does.
    private <T> @Nullable T read(StepRow row, Class<T> type) {
        String json = row.result();
        Class<?> boxed = ClassUtils.resolvePrimitiveIfNecessary(type);
        return json == null || type == Void.class
                ? null
                : (T) boxed.cast(engine.json().read(json, boxed));
    }

    private @Nullable String json(@Nullable Object value) {
        try {
            return value == null ? null : engine.json().write(value);
        } catch (IllegalArgumentException e) {
            throw new PermanentJobFailure("what it returned " + e.getMessage(), e);
        }
    }

    /** By the database's clock, as far as this node can tell. */
    private Instant databaseNow() {
        return loaded.now().plusNanos(engine.nanos() - loadedAt).truncatedTo(ChronoUnit.MICROS);
    }

    // Steps -------------------------------------------------------------------------------------------------

    @Override
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    public <T> T step(Step<T> step) {
        StepRow known = next("step", step.name());
        return result(
                step, execute(step, known != null ? known : StepRow.of(position - 1, step.name(), "step", "retrying")));
    }

    /** What came of a step. */
    private sealed interface Result {
        record Done(StepRow row, @Nullable Object value) implements Result {}

        record GivenUp(StepRow row, @Nullable Throwable cause) implements Result {}

        record Again(StepRow row) implements Result {}
    }

    @SuppressWarnings("unchecked")
    private <T> @Nullable T result(Step<T> step, Result result) {
        if (result instanceof Result.Done done) {
            T value = (T) done.value;
            if (step.compensation() != null) {
                undoings.add(new Undoing<>(done.row, step, value));
            }
            return value;
        } else if (result instanceof Result.GivenUp gone) {
            String error = gone.row.error();
            throw new StepFailedException(
                    step.name(), error == null ? "" : error.lines().findFirst().orElse(""), gone.cause);
        }
        StepRow row = ((Result.Again) result).row;
        throw unwind(new Unwinding.Waits(List.of(row), row.wakeAt(), null, null, WorkflowRun::nothing));
    }

    /** Does the step unless it is done. */
    private <T> Result execute(Step<T> step, StepRow row) {
        switch (row.status()) {
            case "completed", "compensated", "compensation_failed" -> {
                return new Result.Done(row, read(row, step.type()));
            }
            case "failed" -> {
                return new Result.GivenUp(row, null);
            }
            default -> {
                if (loaded.unwinding()) {
                    throw unwind(Plain.MEMORY_ENDS);
                }
                Instant again = row.wakeAt();
                return again != null && again.isAfter(databaseNow()) ? new Result.Again(row) : attempt(step, row);
            }
        }
    }

    private <T> Result attempt(Step<T> step, StepRow row) {
        int attempt = row.attempts() + 1;
        settleChance();
        try {
            @Nullable StepRow[] done = {null};
            Object value = perform(step.action(), step, (returned, ran) -> {
                StepRow completed = row.failed("completed", attempt, null)
                        .with("completed", json(returned))
                        .until(null)
                        .ran(attempt, ran);
                done[0] = completed;
                return completed;
            });
            return new Result.Done(Objects.requireNonNull(done[0]), value);
        } catch (Failed failed) {
            Throwable cause = failed.getCause();
            String error = Execution.storable(Execution.text(cause));
            if (attempt < attempts(step) && !(cause instanceof PermanentJobFailure)) {
                Duration pause = pause(step, attempt, cause);
                log.info(
                        "workflow {} run {}: step '{}' failed, attempt {}, the next one in {} ms: {}",
                        handler.version().jobName(),
                        id(),
                        step.name(),
                        attempt,
                        pause.toMillis(),
                        cause.toString());
                return new Result.Again(row.failed("retrying", attempt, error)
                        .until(databaseNow().plus(pause))
                        .ran(attempt, failed.ranMillis));
            }
            StepRow gone = row.failed("failed", attempt, error).until(null).ran(attempt, failed.ranMillis);
            remember(gone, null);
            return new Result.GivenUp(gone, cause);
        }
    }

    private int attempts(Step<?> step) {
        Integer own = step.attempts();
        return own != null ? own : engine.settings().attempts();
    }

    private Duration pause(Step<?> step, int failed, Throwable cause) {
        BackoffStrategy own = step.backoff();
        Duration pause = (own != null ? own : engine.settings().backoff()).delay(failed, cause);
        return engine.jittered(pause.isNegative() ? Duration.ZERO : pause);
    }

    /** An attempt that has failed by its own fault. */
    private static final class Failed extends Exception {
        private static final long serialVersionUID = 1L;
        private final long ranMillis;

        Failed(Throwable cause, long ranMillis) {
            super(null, cause, false, false);
            this.ranMillis = ranMillis;
        }

        @Override
        public synchronized Throwable getCause() {
            return Objects.requireNonNull(super.getCause());
        }
    }

    private interface Memory {
        StepRow of(@Nullable Object returned, long ranMillis);
    }

    /** Does something and remembers it, in one transaction if the step wants one. */
    private @Nullable Object perform(Callable<?> action, Step<?> step, Memory memory) throws Failed {
        long began = engine.nanos();
        return engine.observed(handler.version(), step.name(), id(), () -> {
            try {
                if (step.transactional()) {
                    return inTransaction(action, step, memory, began);
                }
                Object returned = call(action, step);
                remember(memory.of(returned, millisSince(began)), null);
                return returned;
            } catch (Unwinding e) {
                throw e;
            } catch (Throwable e) {
                if (job.stopReason() != null) {
                    // Not its own fault: whoever runs the step next begins it anew.
                    throw unwind(job.stopReason() == Running.Stop.LOST ? Plain.LOST : Plain.STOPPED);
                }
                throw new Failed(e, millisSince(began));
            }
        });
    }

    private long millisSince(long began) {
        return (engine.nanos() - began) / 1_000_000;
    }

    private @Nullable Object call(Callable<?> action, Step<?> step) throws Exception {
        actions.incrementAndGet();
        try (StepDeadlines.Deadline deadline = engine.deadlines().begin(step.timeout())) {
            try {
                return action.call();
            } catch (Exception e) {
                if (deadline.hasPassed() && job.stopReason() == null) {
                    throw new StepTimeout("it took longer than " + step.timeout(), e);
                }
                throw e;
            }
        } finally {
            actions.decrementAndGet();
            Thread.interrupted();
        }
    }

    private static final class StepTimeout extends RuntimeException {
        private static final long serialVersionUID = 1L;

        StepTimeout(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private @Nullable Object inTransaction(Callable<?> action, Step<?> step, Memory memory, long began)
            throws Exception {
        TransactionStatus status;
        try {
            status = engine.transactions()
                    .getTransaction(
                            new DefaultTransactionDefinition(DefaultTransactionDefinition.PROPAGATION_REQUIRES_NEW));
        } catch (TransactionException e) {
            throw unwind(new Unwinding.Unwritten(e));
        }
        Object returned;
        Written written;
        int gathered;
        try {
            returned = call(action, step);
            // What an entity manager still holds back belongs before the proof.
            status.flush();
            if (!store.joinsTransaction()) {
                throw new PermanentJobFailure(
                        "the application's transactions are not those of the cluster's DataSource: use a step, not a transactionalStep");
            }
            List<StepRow> rows = taken();
            gathered = rows.size();
            rows.add(memory.of(returned, millisSince(began)));
            written = written(() -> store.remember(claim, rows, null));
            if (written == Written.CLAIM_LOST) {
                throw unwind(Plain.LOST);
            }
        } catch (Throwable e) {
            rollBack(status, e);
            throw e;
        }
        try {
            engine.transactions().commit(status);
        } catch (UnexpectedRollbackException e) {
            throw e;
        } catch (DataAccessException e) {
            if (JobStore.isRefusal(e)) {
                throw e;
            }
            throw unwind(new Unwinding.Unwritten(e));
        } catch (TransactionException e) {
            // Perhaps it is committed. The next execution will see.
            throw unwind(new Unwinding.Unwritten(e));
        }
        accept(written, gathered);
        return returned;
    }

    private void rollBack(TransactionStatus status, Throwable cause) {
        try {
            if (!status.isCompleted()) {
                engine.transactions().rollback(status);
            }
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }

    @Override
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    public <T> List<T> all(List<? extends Step<? extends T>> steps) {
        if (loaded.unwinding()) {
            return remembered(steps);
        }
        List<Callable<Result>> works = new ArrayList<>();
        int first = position;
        for (Step<? extends T> step : steps) {
            StepRow known = next("step", step.name());
            StepRow row = known != null ? known : StepRow.of(position - 1, step.name(), "step", "retrying");
            works.add(() -> execute(step, row.sideBySide(first)));
        }
        List<Result> results = sideBySide(works);
        List<StepRow> again = new ArrayList<>();
        results.forEach(result -> {
            if (result instanceof Result.Again later) {
                again.add(later.row);
            }
        });
        if (!again.isEmpty()) {
            Instant earliest = again.stream()
                    .map(StepRow::wakeAt)
                    .filter(Objects::nonNull)
                    .min(Instant::compareTo)
                    .orElseGet(this::databaseNow);
            throw unwind(new Unwinding.Waits(again, earliest, null, null, WorkflowRun::nothing));
        }
        return values(steps, results);
    }

    /** What is done of them can be undone, however many of the others are not. */
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> remembered(List<? extends Step<? extends T>> steps) {
        List<Step<? extends T>> met = new ArrayList<>();
        List<Result> results = new ArrayList<>();
        for (Step<? extends T> step : steps) {
            if (!loaded.steps().containsKey(position)) {
                position++;
                continue;
            }
            StepRow known = Objects.requireNonNull(next("step", step.name()));
            if (!known.status().equals("retrying")) {
                met.add(step);
                results.add(execute(step, known));
            }
        }
        if (met.size() == steps.size()) {
            return values(met, results);
        }
        try {
            values(met, results);
        } catch (StepFailedException e) {
            log.debug("one of the steps had failed before all were done", e);
        }
        throw unwind(Plain.MEMORY_ENDS);
    }

    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> values(List<? extends Step<? extends T>> steps, List<Result> results) {
        List<T> values = new ArrayList<>();
        StepFailedException failure = null;
        for (int i = 0; i < results.size(); i++) {
            try {
                values.add(result(steps.get(i), results.get(i)));
            } catch (StepFailedException e) {
                // The others have been done, and may have to be undone.
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return values;
    }

    /** All of them, the last on this thread. What ends the method counts only when all have come to an end. */
    private List<Result> sideBySide(List<Callable<Result>> works) {
        List<FutureTask<Result>> tasks = works.stream().map(FutureTask::new).toList();
        for (int i = 0; i < tasks.size() - 1; i++) {
            engine.branches().execute(tasks.get(i));
        }
        if (!tasks.isEmpty()) {
            tasks.get(tasks.size() - 1).run();
        }
        List<Result> results = new ArrayList<>();
        Unwinding pause = null;
        for (Future<Result> task : tasks) {
            try {
                results.add(task.get());
            } catch (InterruptedException e) {
                tasks.forEach(other -> other.cancel(true));
                throw unwind(job.stopReason() == Running.Stop.LOST ? Plain.LOST : Plain.STOPPED);
            } catch (ExecutionException e) {
                if (e.getCause() instanceof Unwinding unwinding) {
                    pause = unwinding;
                } else if (e.getCause() instanceof RuntimeException bug) {
                    throw bug;
                } else {
                    throw new IllegalStateException(e.getCause());
                }
            }
        }
        if (pause != null) {
            throw pause;
        }
        return results;
    }

    // Waiting -----------------------------------------------------------------------------------------------

    private static Duration bounded(String what, Duration duration) {
        if (duration.isNegative() || duration.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "%s: %s; it must lie between none and a hundred years".formatted(what, duration));
        }
        return duration;
    }

    /** It will be remembered as done with the next thing that is written; until then, that its time has passed says so too. */
    private void later(StepRow row) {
        synchronized (unwritten) {
            unwritten.add(row);
        }
    }

    @Override
    public void sleep(String name, Duration duration) {
        bounded("sleep '%s'".formatted(name), duration);
        StepRow known = next("sleep", name);
        if (known != null && known.status().equals("completed")) {
            return;
        }
        StepRow row = known != null
                ? known
                : StepRow.of(position - 1, name, "sleep", "waiting")
                        .until(databaseNow().plus(duration));
        Instant until = Objects.requireNonNull(row.wakeAt());
        if (until.isAfter(databaseNow())) {
            if (loaded.unwinding()) {
                throw unwind(Plain.MEMORY_ENDS);
            }
            throw unwind(new Unwinding.Waits(List.of(row), until, null, null, WorkflowRun::nothing));
        }
        later(row.with("completed", null));
    }

    @Override
    @SuppressWarnings("NullAway") // A signal without payload is null.
    public <T> T awaitSignal(String name, Class<T> type) {
        return signal(name, type, null).orElse(null);
    }

    @Override
    public <T> Optional<T> awaitSignal(String name, Class<T> type, Duration timeout) {
        return signal(name, type, bounded("signal '%s'".formatted(name), timeout));
    }

    private <T> Optional<T> signal(String name, Class<T> type, @Nullable Duration timeout) {
        StepRow known = next("signal", name);
        if (known != null && !known.status().equals("waiting")) {
            return Optional.ofNullable(read(known, type));
        }
        if (loaded.unwinding()) {
            throw unwind(Plain.MEMORY_ENDS);
        }
        StepRow row = known != null
                ? known
                : StepRow.of(position - 1, name, "signal", "waiting")
                        .until(timeout == null ? null : databaseNow().plus(timeout));
        Signal given = signals.stream()
                .filter(signal -> signal.name().equals(name))
                .findFirst()
                .orElse(null);
        if (given != null) {
            signals.remove(given);
            StepRow taken = row.with("completed", given.payload());
            remember(taken, given.id());
            return Optional.ofNullable(read(taken, type));
        }
        Instant deadline = row.wakeAt();
        // By the time of the snapshot that has shown no signal: one that came before the deadline must have been seen.
        if (deadline != null && !deadline.isAfter(loaded.now())) {
            remember(row.with("timed_out", null), null);
            return Optional.empty();
        }
        throw unwind(new Unwinding.Waits(List.of(row), deadline, name, null, WorkflowRun::nothing));
    }

    @Override
    public <T> T job(String name, @Nullable Object payload, Class<T> type) {
        StepRow known = next("job", name);
        if (known == null) {
            NewJob fresh = engine.jobs()
                    .prepare(
                            name, payload, JobOptions.defaults().withMetadata(WorkflowEngine.AWAITED, id().toString()));
            throw awaited(position - 1, "job", name, fresh.id(), () -> engine.insert(fresh, key(position - 1)));
        }
        return outcome(known, type, () -> {
            JobInfo job = engine.find(ref(known)).orElse(null);
            return job == null
                    ? new Other(true, false, null, "its row was deleted")
                    : new Other(
                            job.status().isFinal(),
                            job.status() == JobStatus.COMPLETED,
                            job.result(),
                            "the job is %s: %s".formatted(job.status(), job.lastError()));
        });
    }

    @Override
    public <T> T child(String workflow, @Nullable Object input, Class<T> type) {
        StepRow known = next("child", workflow);
        if (known == null) {
            NewRun fresh = engine.prepare(workflow, input, null, new WorkflowEngine.Parent(id(), key(position - 1)));
            throw awaited(position - 1, "child", workflow, fresh.id(), () -> store.insert(fresh));
        }
        return outcome(known, type, () -> {
            WorkflowInfo child = engine.reports().find(ref(known)).orElse(null);
            return child == null
                    ? new Other(true, false, null, "its run is gone")
                    : new Other(
                            child.status().isFinal(),
                            child.status() == WorkflowStatus.COMPLETED,
                            child.result(),
                            "the run is %s: %s".formatted(child.status(), child.lastError()));
        });
    }

    /** Another job or run. */
    private record Other(
            boolean ended, boolean completed, @Nullable String result, String failure) {}

    private interface Look {
        Other at();
    }

    private String key(int at) {
        return "%s%s:%d".formatted(WorkflowStore.PREFIX, id(), at);
    }

    private static UUID ref(StepRow row) {
        return Objects.requireNonNull(row.ref());
    }

    private Unwinding awaited(int at, String kind, String name, UUID other, Runnable before) {
        StepRow row = StepRow.of(at, name, kind, "waiting").waitingFor(other);
        return unwind(new Unwinding.Waits(List.of(row), null, null, other, before));
    }

    @SuppressWarnings("NullAway") // What returns nothing returns null.
    private <T> T outcome(StepRow known, Class<T> type, Look look) {
        if (known.status().equals("completed")) {
            return read(known, type);
        }
        if (known.status().equals("failed")) {
            throw new StepFailedException(known.name(), known.error(), null);
        }
        if (loaded.unwinding()) {
            throw unwind(Plain.MEMORY_ENDS);
        }
        Other[] seen = {new Other(false, false, null, "")};
        written(() -> {
            seen[0] = look.at();
            return Written.WRITTEN;
        });
        Other other = seen[0];
        if (!other.ended) {
            throw unwind(new Unwinding.Waits(List.of(), null, null, ref(known), WorkflowRun::nothing));
        }
        if (!other.completed) {
            remember(known.failed("failed", 1, other.failure), null);
            throw new StepFailedException(known.name(), other.failure, null);
        }
        StepRow done = known.with("completed", other.result);
        later(done);
        return read(done, type);
    }

    // The rest ----------------------------------------------------------------------------------------------

    @Override
    public UUID id() {
        return claim.key().id();
    }

    @Override
    public String name() {
        return handler.version().workflow();
    }

    @Override
    public String version() {
        return handler.version().version();
    }

    @Override
    public Instant now() {
        StepRow known = next("now", "now");
        if (known != null) {
            return Instant.parse(Objects.requireNonNull(read(known, String.class)));
        }
        Instant now = databaseNow();
        later(StepRow.of(position - 1, "now", "now", "completed").with("completed", "\"" + now + "\""));
        return now;
    }

    @Override
    public UUID randomUuid() {
        StepRow known = next("uuid", "uuid");
        if (known != null) {
            return UUID.fromString(Objects.requireNonNull(read(known, String.class)));
        }
        UUID random = UUID.randomUUID();
        later(StepRow.of(position - 1, "uuid", "uuid", "completed").with("completed", "\"" + random + "\""));
        return random;
    }

    @Override
    public void saveState(Object value) {
        StepRow known = next("state", "state");
        if (known != null) {
            state = known.result();
            return;
        }
        state = engine.json().write(value);
        later(StepRow.of(position - 1, "state", "state", "completed").with("completed", state));
    }

    @Override
    public <T> Optional<T> state(Class<T> type) {
        String saved = state;
        return saved == null
                ? Optional.empty()
                : Optional.ofNullable(type.cast(engine.json().read(saved, type)));
    }

    @Override
    public void progress(int percent, String message) {
        job.progress(percent, message);
    }
}

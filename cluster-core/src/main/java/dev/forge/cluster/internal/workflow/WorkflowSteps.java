package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.internal.database.BeginFailure;
import dev.forge.cluster.internal.database.DatabaseFault;
import dev.forge.cluster.internal.job.JobMonitor;
import dev.forge.cluster.internal.job.JobStore;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.AsyncResults;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.WorkflowHistory.Noted;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Plain;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waits;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.springframework.core.ResolvableType;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.InvalidIsolationLevelException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Does the steps of a run, alone or side by side, and undoes them. A step that is remembered as done is not done again; one
 * that is done is remembered before the method hears of it.
 */
final class WorkflowSteps {

    private static final Logger log = GuardedLogger.of(WorkflowSteps.class);

    private final Tools tools;
    private final Version version;
    private final RunningJob job;
    private final WorkflowHistory memory;
    private final List<Undoable> undoings = new ArrayList<>();
    private final List<Attempted> repeated = new CopyOnWriteArrayList<>();

    /**
     * What steps are done with; the same for all runs.
     *
     * @param branches runs steps side by side
     */
    record Tools(
            WorkflowEngine.Settings settings,
            PlatformTransactionManager transactions,
            JobMonitor monitor,
            StepDeadlines deadlines,
            Executor branches,
            LongSupplier nanos,
            RandomGenerator random) {}

    WorkflowSteps(Tools tools, Version version, RunningJob job, WorkflowHistory memory) {
        this.tools = tools;
        this.version = version;
        this.job = job;
        this.memory = memory;
    }

    // One ---------------------------------------------------------------------------------------------------

    <T> @Nullable T step(Step<T> step) {
        requireValue(step);
        return result(step, execute(step, next(step)));
    }

    /** What a step returns is stored: a future cannot be. */
    private static void requireValue(Step<?> step) {
        Class<?> type = ResolvableType.forType(step.type()).resolve(Object.class);
        if (AsyncResults.isAsync(type)) {
            throw new IllegalArgumentException(
                    "step '%s' returns a %s: wait for it inside of the step, with join() or block(), and declare the type of its value"
                            .formatted(step.name(), type.getName()));
        }
    }

    private StepRow next(Step<?> step) {
        StepRow known = memory.next("step", step.name());
        return known != null ? known : memory.fresh("step", step.name(), "retrying");
    }

    /** What came of a step. */
    private sealed interface Result {
        record Done(StepRow row, @Nullable Object value) implements Result {}

        record GivenUp(StepRow row) implements Result {}

        record Again(StepRow row) implements Result {}

        /** Not by the step's own fault: its back-off strategy throws, what it has returned cannot be read any more. */
        record Broken(Throwable cause) implements Result {}
    }

    @SuppressWarnings("unchecked")
    private <T> @Nullable T result(Step<T> step, Result result) {
        if (result instanceof Result.Done done) {
            T value = (T) done.value;
            Step.Compensation<T> compensation = step.compensation();
            if (compensation != null) {
                undoings.add(new Undoing<>(done.row, step, compensation, value));
            }
            return value;
        } else if (result instanceof Result.GivenUp gone) {
            String error = gone.row.error();
            // Without its cause, which no replay has: what a method makes of it must be the same each time.
            throw new StepFailedException(
                    step.name(), error == null ? "" : error.lines().findFirst().orElse(""));
        }
        if (result instanceof Result.Broken broken) {
            throw broken.cause instanceof RuntimeException bug ? bug : new IllegalStateException(broken.cause);
        }
        StepRow row = ((Result.Again) result).row;
        throw memory.unwind(Waits.until(row.wakeAt(), List.of(row)));
    }

    /** Does the step unless it is done. */
    private <T> Result execute(Step<T> step, StepRow row) {
        switch (row.status()) {
            case "completed", "compensated", "compensation_failed" -> {
                return new Result.Done(row, memory.read(row, step.type()));
            }
            case "failed" -> {
                return new Result.GivenUp(row);
            }
            default -> {
                memory.requireOnward();
                Instant again = row.wakeAt();
                return again != null && again.isAfter(memory.databaseNow())
                        ? new Result.Again(row)
                        : attempt(step, row);
            }
        }
    }

    private <T> Result attempt(Step<T> step, StepRow row) {
        int attempt = row.attempts() + 1;
        memory.settleChance();
        try {
            @Nullable Result[] done = {null};
            var attempted = new Attempted() {
                @Override
                public StepRow failed(Failed failed) {
                    return WorkflowSteps.this.failed(step, row, failed);
                }

                @Override
                public StepRow repeated(String error, Instant next) {
                    return row.failed("retrying", row.attempts(), error).until(next);
                }
            };
            perform(step.action(), step, attempted, (returned, ran) -> {
                StepRow completed = row.failed("completed", attempt, null)
                        .with("completed", memory.json(returned))
                        .until(null)
                        .ran(attempt, ran);
                done[0] = new Result.Done(completed, memory.readAgain(completed, step.type()));
                return completed;
            });
            return Objects.requireNonNull(done[0]);
        } catch (Failed failed) {
            Throwable cause = failed.getCause();
            StepRow gone = failed(step, row, failed);
            if (!isLast(step, attempt, cause)) {
                log.info(
                        "workflow {} run {}: step '{}' failed, attempt {}, the next one at {}: {}",
                        version.label(),
                        job.id(),
                        step.name(),
                        attempt,
                        gone.wakeAt(),
                        ErrorText.brief(cause));
                return new Result.Again(gone);
            }
            memory.remember(gone, null);
            log.warn(
                    "workflow {} run {}: step '{}' failed, attempt {} was the last",
                    version.label(),
                    job.id(),
                    step.name(),
                    attempt,
                    ErrorText.loggable(cause));
            return new Result.GivenUp(gone);
        }
    }

    /** How an attempt that has failed is remembered: to be tried again later, or given up. */
    private StepRow failed(Step<?> step, StepRow row, Failed failed) {
        int attempt = row.attempts() + 1;
        Throwable cause = failed.getCause();
        boolean last = isLast(step, attempt, cause);
        return row.failed(last ? "failed" : "retrying", attempt, failed.text())
                .until(last ? null : memory.databaseNow().plus(pause(step, attempt, cause)))
                .ran(attempt, failed.ranMillis);
    }

    /** Whether nothing is tried again after that. */
    boolean isLast(Step<?> step, int attempt, Throwable cause) {
        Integer own = step.attempts();
        return attempt >= (own != null ? own : tools.settings.attempts()) || cause instanceof PermanentJobFailure;
    }

    /** The same for undoing, which is tried as often as is usual, however seldom the step may be. */
    boolean isLastUndoing(int attempt, Throwable cause) {
        return attempt >= tools.settings.attempts() || cause instanceof PermanentJobFailure;
    }

    Duration pause(Step<?> step, int failed, Throwable cause) {
        BackoffStrategy own = step.backoff();
        Duration pause = (own != null ? own : tools.settings.backoff()).delay(failed, cause);
        return jittered(pause.isNegative() ? Duration.ZERO : pause);
    }

    /** So that what failed together does not come back together. */
    private Duration jittered(Duration pause) {
        double jitter = tools.settings.jitter() * (2 * tools.random.nextDouble() - 1);
        return Duration.ofMillis((long) (pause.toMillis() * (1 + jitter)));
    }

    // Side by side ------------------------------------------------------------------------------------------

    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    <T> List<T> all(List<? extends Step<? extends T>> steps) {
        steps.forEach(WorkflowSteps::requireValue);
        if (memory.isReplay()) {
            return remembered(steps);
        }
        List<Callable<Result>> works = new ArrayList<>();
        int first = memory.position();
        for (Step<? extends T> step : steps) {
            StepRow row = next(step);
            works.add(() -> execute(step, row.sideBySide(first)));
        }
        List<Result> results = sideBySide(works);
        boolean broken = results.stream().anyMatch(Result.Broken.class::isInstance);
        List<StepRow> again = results.stream()
                .filter(Result.Again.class::isInstance)
                .map(result -> ((Result.Again) result).row)
                .toList();
        if (!again.isEmpty() && !broken) {
            Instant earliest = again.stream()
                    .map(StepRow::wakeAt)
                    .filter(Objects::nonNull)
                    .min(Instant::compareTo)
                    .orElseGet(memory::databaseNow);
            throw memory.unwind(Waits.until(earliest, again));
        }
        return values(steps, results);
    }

    /** What is done of them can be undone, however many of the others are not. */
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> remembered(List<? extends Step<? extends T>> steps) {
        List<Step<? extends T>> met = new ArrayList<>();
        List<Result> results = new ArrayList<>();
        for (Step<? extends T> step : steps) {
            if (memory.passUnknown()) {
                continue;
            }
            StepRow known = next(step);
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
        throw memory.unwind(Plain.MEMORY_ENDS);
    }

    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> values(List<? extends Step<? extends T>> steps, List<Result> results) {
        List<T> values = new ArrayList<>();
        RuntimeException failure = null;
        for (int i = 0; i < results.size(); i++) {
            if (results.get(i) instanceof Result.Again) {
                // One of the others is broken, or this would not be asked for.
                continue;
            }
            try {
                values.add(result(steps.get(i), results.get(i)));
            } catch (RuntimeException e) {
                // The others have been done, and may have to be undone.
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return values;
    }

    /** All of them, the last on this thread. Whatever becomes of them counts only when all have come to an end. */
    private List<Result> sideBySide(List<Callable<Result>> works) {
        List<Branch> branches = works.stream().map(Branch::new).toList();
        Map<String, String> about = MDC.getCopyOfContextMap();
        var here = new ArrayList<Branch>();
        for (int i = 0; i < branches.size() - 1; i++) {
            Runnable carried = tools.monitor.carried(branches.get(i));
            try {
                tools.branches.execute(() -> {
                    if (about != null) {
                        MDC.setContextMap(about);
                    }
                    carried.run();
                });
            } catch (RuntimeException | OutOfMemoryError e) {
                // Those that run already must not be left alone.
                log.warn(
                        "workflow {} run {}: could not create a thread for a step; it runs after the others, on the thread of the run",
                        version.label(),
                        job.id(),
                        e);
                here.add(branches.get(i));
            }
        }
        if (!branches.isEmpty()) {
            here.add(branches.get(branches.size() - 1));
        }
        here.forEach(Branch::run);
        boolean interrupted = job.stopReason() != null;
        for (Branch branch : branches) {
            if (interrupted) {
                branches.forEach(Branch::interrupt);
            }
            interrupted |= branch.awaitEnd(() -> branches.forEach(Branch::interrupt));
        }
        if (interrupted) {
            throw memory.stopped();
        }
        return branches.stream().map(Branch::result).toList();
    }

    /** One of several steps side by side. */
    private final class Branch implements Runnable {

        private final Callable<Result> work;
        private final CountDownLatch ended = new CountDownLatch(1);
        private @Nullable Thread thread;
        private @Nullable Result result;
        private @Nullable Throwable thrown;

        Branch(Callable<Result> work) {
            this.work = work;
        }

        @Override
        public void run() {
            synchronized (this) {
                thread = Thread.currentThread();
            }
            try {
                if (job.stopReason() != null) {
                    throw memory.stopped();
                }
                result = work.call();
            } catch (Throwable e) {
                thrown = e;
            } finally {
                synchronized (this) {
                    thread = null;
                }
                ended.countDown();
            }
        }

        synchronized void interrupt() {
            if (thread != null) {
                thread.interrupt();
            }
        }

        /** Answers whether somebody wants the method to end, of which the others are told. */
        boolean awaitEnd(Runnable tell) {
            boolean interrupted = false;
            while (ended.getCount() > 0) {
                try {
                    ended.await();
                } catch (InterruptedException e) {
                    interrupted = true;
                    tell.run();
                }
            }
            return interrupted;
        }

        Result result() {
            if (thrown instanceof WorkflowSuspension pause) {
                throw pause;
            }
            Result done = result;
            return done != null ? done : new Result.Broken(Objects.requireNonNull(thrown));
        }
    }

    // Undoing -----------------------------------------------------------------------------------------------

    /** Something that has been done and can be undone. */
    sealed interface Undoable {
        StepRow row();
    }

    /** A child that has completed, and undoes what it has done itself. */
    record CompletedChild(StepRow row) implements Undoable {}

    /** A step that has been done and can be undone. */
    record Undoing<T>(
            StepRow row,
            Step<T> step,
            Step.Compensation<T> compensation,
            @Nullable T value) implements Undoable {

        int attempt() {
            return row.compensationAttempts() + 1;
        }

        @SuppressWarnings("NullAway") // A step that returns nothing has nothing to hand to its compensation.
        @Nullable
        Object run() throws Exception {
            compensation.undo(value);
            return null;
        }
    }

    /** In the order in which the method has heard of them. */
    List<Undoable> undoings() {
        return undoings;
    }

    void add(Undoable undoable) {
        undoings.add(undoable);
    }

    /** What is recorded of the attempts that the database's failure has ended: why, and when they are repeated. */
    List<StepRow> repeated(String error, Instant next) {
        return repeated.stream()
                .map(attempted -> attempted.repeated(error, next))
                .toList();
    }

    void undo(Undoing<?> undoing) throws Failed {
        perform(
                undoing::run,
                undoing.step,
                new Attempted() {
                    @Override
                    public StepRow failed(Failed failed) {
                        Instant next =
                                memory.databaseNow().plus(pause(undoing.step, undoing.attempt(), failed.getCause()));
                        return undoing.row.compensating("completed", undoing.attempt(), failed.text(), next);
                    }

                    @Override
                    public StepRow repeated(String error, Instant next) {
                        return undoing.row.compensating("completed", undoing.row.compensationAttempts(), error, next);
                    }

                    @Override
                    public boolean undoing() {
                        return true;
                    }
                },
                (nothing, ran) -> undoing.row.compensating("compensated", undoing.attempt(), null, null));
    }

    // An attempt --------------------------------------------------------------------------------------------

    /** An attempt that has failed by its own fault. */
    static final class Failed extends Exception {
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

        /** Why, as it is remembered. */
        String text() {
            return ErrorText.storable(getCause());
        }
    }

    private interface Remembered {
        StepRow as(@Nullable Object returned, long ranMillis);
    }

    /** What is attempted: the step itself, or undoing it. */
    private interface Attempted {

        /** How it is remembered that the attempt has failed. */
        StepRow failed(Failed failed);

        /** How it is remembered that the attempt does not count, and is repeated at that time. */
        StepRow repeated(String error, Instant next);

        default boolean undoing() {
            return false;
        }
    }

    /** Does something and remembers it, in one transaction if the step wants one. */
    private @Nullable Object perform(Callable<?> action, Step<?> step, Attempted attempted, Remembered remembered)
            throws Failed {
        return observed(action, step, attempted, remembered, tools.nanos.getAsLong());
    }

    /**
     * The node leaves while the step still runs: if its code has exceeded its timeout, its attempt has failed. Otherwise
     * whoever runs it next begins it anew. A step that waits for a connection, or whose result is being written, does not count.
     */
    private void spend(Step<?> step, Attempted attempted, StepDeadlines.Deadline deadline) {
        OptionalLong ran = deadline.overdueNanos();
        Thread thread = deadline.thread();
        if (ran.isEmpty() || thread == null) {
            return;
        }
        var failure = new StepTimeout(
                "it took longer than %s, and ignored the interrupt until the node left".formatted(step.timeout()),
                null);
        // Where it hangs, not where that was found out.
        failure.setStackTrace(thread.getStackTrace());
        try {
            if (!memory.spend(attempted.failed(new Failed(failure, ran.getAsLong() / 1_000_000)))) {
                log.debug("run {}: what became of step '{}' is recorded already", job.id(), step.name());
            }
        } catch (RuntimeException e) {
            log.warn(
                    "Workflow {} run {}: step '{}' exceeded its timeout, but its attempt could not be counted",
                    version.label(),
                    job.id(),
                    step.name(),
                    e);
        }
    }

    private @Nullable Object observed(
            Callable<?> action, Step<?> step, Attempted attempted, Remembered remembered, long began) throws Failed {
        return ObservedStep.observe(tools.monitor, version, step.name(), job.id(), attempted.undoing(), () -> {
            try {
                if (step.transactional()) {
                    return inTransaction(action, step, attempted, remembered, began);
                }
                Object returned = call(action, step, attempted);
                StepRow row = remembered.as(returned, millisSince(began));
                storable(() -> {
                    memory.remember(row, null);
                    return row;
                });
                return returned;
            } catch (WorkflowSuspension e) {
                if (e.why() instanceof WorkflowSuspension.Unwritten) {
                    repeated.add(attempted);
                }
                throw e;
            } catch (Throwable e) {
                if (job.stopReason() != null) {
                    // Not its own fault: whoever runs the step next begins it anew.
                    throw memory.stopped();
                }
                throw new Failed(e, millisSince(began));
            }
        });
    }

    /** What the database refuses to store it will refuse the next time, too. */
    private static <T> T storable(Supplier<T> write) {
        try {
            return write.get();
        } catch (DataAccessException e) {
            throw new PermanentJobFailure("what it returned cannot be stored: " + e.getMessage(), e);
        }
    }

    private long millisSince(long began) {
        return (tools.nanos.getAsLong() - began) / 1_000_000;
    }

    private @Nullable Object call(Callable<?> action, Step<?> step, Attempted attempted) throws Exception {
        memory.stepBegins();
        try (StepDeadlines.Deadline deadline = tools.deadlines.begin(job, step)) {
            Runnable release = () -> spend(step, attempted, deadline);
            job.onRelease(release);
            try {
                Object returned = action.call();
                Object result =
                        step.transactional() ? AsyncResults.requireFinished(returned) : AsyncResults.await(returned);
                deadline.requireInTime();
                return result;
            } catch (Exception e) {
                if (deadline.hasPassed() && job.stopReason() == null && !(e instanceof StepTimeout)) {
                    throw new StepTimeout("it took longer than " + step.timeout(), e);
                }
                throw e;
            } finally {
                job.forgetRelease(release);
            }
        } finally {
            memory.stepEnds();
            Thread.interrupted();
        }
    }

    /** A step has exceeded its timeout. */
    static final class StepTimeout extends RuntimeException {
        private static final long serialVersionUID = 1L;

        StepTimeout(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    private @Nullable Object inTransaction(
            Callable<?> action, Step<?> step, Attempted attempted, Remembered remembered, long began) throws Exception {
        TransactionStatus status = begin(step);
        var completion = new Completion();
        if (TransactionSynchronizationManager.isSynchronizationActive()) {
            TransactionSynchronizationManager.registerSynchronization(completion);
        }
        Object returned;
        Noted noted;
        try {
            returned = call(action, step, attempted);
            // What an entity manager still holds back belongs before the proof.
            status.flush();
            if (!memory.joinsTransaction()) {
                throw new PermanentJobFailure(
                        "the application's transactions are not those of the cluster's DataSource: use a step, not a transactionalStep");
            }
            StepRow row = remembered.as(returned, millisSince(began));
            noted = recorded(row);
        } catch (Throwable e) {
            rollBack(status, e);
            throw e;
        }
        try {
            tools.transactions.commit(status);
        } catch (RuntimeException e) {
            requireCommitted(completion, step, e);
        }
        memory.accept(noted);
        return returned;
    }

    private Noted recorded(StepRow row) {
        try {
            return memory.noteInTransaction(row);
        } catch (DataAccessException e) {
            if (JobStore.isRefusal(e)) {
                throw new PermanentJobFailure("what it returned cannot be stored: " + e.getMessage(), e);
            }
            if (JobStore.isAborted(e)) {
                throw new IllegalStateException(
                        "its transaction was aborted by a database error that the step has caught: let that exception"
                                + " propagate, or run the statement that may fail in a nested transaction (a savepoint)",
                        e);
            }
            throw e;
        }
    }

    /**
     * What comes after the commit (sending a mail, say) may fail, but does not undo it. What has kept the transaction from
     * being committed is the step's own failure, unless it is the database's.
     */
    private void requireCommitted(Completion completion, Step<?> step, RuntimeException failure) {
        if (completion.status == TransactionSynchronization.STATUS_COMMITTED) {
            log.warn(
                    "workflow {} run {}: step '{}' is done and committed, but something that was to follow its commit failed",
                    version.label(),
                    job.id(),
                    step.name(),
                    ErrorText.loggable(failure));
        } else if (!DatabaseFault.caused(failure)
                && (completion.status == TransactionSynchronization.STATUS_ROLLED_BACK
                        || failure instanceof UnexpectedRollbackException
                        || DatabaseFault.isAnswered(failure))) {
            throw failure;
        } else {
            // Perhaps it is committed. The next execution will see.
            throw memory.unwind(new WorkflowSuspension.Unwritten(failure));
        }
    }

    /** What became of a transaction. */
    private static final class Completion implements TransactionSynchronization {

        private int status = STATUS_UNKNOWN;

        @Override
        public void afterCompletion(int how) {
            status = how;
        }
    }

    private TransactionStatus begin(Step<?> step) {
        var definition = new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        // Under a snapshot the proof of the claim would fail as soon as the lease is renewed.
        definition.setIsolationLevel(TransactionDefinition.ISOLATION_READ_COMMITTED);
        Duration timeout = step.timeout();
        if (timeout != null) {
            definition.setTimeout(
                    (int) Math.min(Integer.MAX_VALUE, timeout.plusMillis(999).toSeconds()));
        }
        try {
            return begin(definition);
        } catch (TransactionException e) {
            if (BeginFailure.isTemporary(e)) {
                throw memory.unwind(new WorkflowSuspension.Unwritten(e));
            }
            // It comes again with each attempt.
            throw e;
        }
    }

    private TransactionStatus begin(DefaultTransactionDefinition definition) {
        try {
            return tools.transactions.getTransaction(definition);
        } catch (InvalidIsolationLevelException e) {
            // A manager that leaves that to the application.
            definition.setIsolationLevel(TransactionDefinition.ISOLATION_DEFAULT);
            return tools.transactions.getTransaction(definition);
        }
    }

    private void rollBack(TransactionStatus status, Throwable cause) {
        try {
            if (!status.isCompleted()) {
                tools.transactions.rollback(status);
            }
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }
}

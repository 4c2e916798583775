// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.StepExecutor.AttemptFailed;
import dev.forge.cluster.internal.workflow.StepExecutor.StepRuntime;
import dev.forge.cluster.internal.workflow.WorkflowCompensation.Compensable;
import dev.forge.cluster.internal.workflow.WorkflowCompensation.Compensable.CompletedStep;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Interruption;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.core.ResolvableType;

/**
 * Executes the steps of a run, one by one or in parallel. A step that is recorded as completed is not executed again; a step that
 * completes is recorded before the method receives its result.
 */
final class WorkflowSteps {

    private static final Logger log = GuardedLogger.of(WorkflowSteps.class);

    private final StepRuntime runtime;
    private final WorkflowVersion version;
    private final Claim job;
    private final WorkflowHistory history;
    private final RunRecorder recorder;
    private final StepExecutor executor;
    private final List<Compensable> compensables = new ArrayList<>();

    WorkflowSteps(
            StepRuntime runtime, WorkflowVersion version, Claim job, WorkflowHistory history, StepExecutor executor) {
        this.runtime = runtime;
        this.version = version;
        this.job = job;
        this.history = history;
        this.recorder = history.recorder();
        this.executor = executor;
    }

    /** Returns what can be compensated, in the order in which the method has received the results. */
    List<Compensable> compensables() {
        return compensables;
    }

    void add(Compensable compensable) {
        compensables.add(compensable);
    }

    // One step ----------------------------------------------------------------------------------------------

    <T> @Nullable T step(Step<T> step) {
        requireValue(step);
        return unwrap(step, execute(step, nextRow(step)));
    }

    /** The result of a step is recorded: it cannot be a future. */
    private static void requireValue(Step<?> step) {
        Class<?> type = ResolvableType.forType(step.type()).resolve(Object.class);
        if (AsyncResults.isAsync(type)) {
            throw new IllegalArgumentException(
                    "Step '%s' returns a %s: wait for it inside of the step, with join() or block(), and declare the type of its value"
                            .formatted(step.name(), type.getName()));
        }
    }

    private StepRow nextRow(Step<?> step) {
        StepRow recorded = history.next("step", step.name());
        return recorded != null ? recorded : history.newRow("step", step.name(), "retrying");
    }

    private sealed interface Outcome {
        record Completed(StepRow row, @Nullable Object value) implements Outcome {}

        /** The last attempt has failed. */
        record Failed(StepRow row) implements Outcome {}

        /** The step is retried later. */
        record Retrying(StepRow row) implements Outcome {}

        /** The step could not be evaluated: its back-off strategy throws. */
        record Broken(Throwable cause) implements Outcome {}
    }

    @SuppressWarnings("unchecked")
    private <T> @Nullable T unwrap(Step<T> step, Outcome outcome) {
        if (outcome instanceof Outcome.Completed completed) {
            T value = (T) completed.value;
            Step.Compensation<T> compensation = step.compensation();
            if (compensation != null) {
                add(new CompletedStep<>(completed.row, step, compensation, value));
            }
            return value;
        } else if (outcome instanceof Outcome.Failed failed) {
            String error = failed.row.error();
            // Without a cause, which a replay does not have: a method that looks at it must do the same each time.
            throw new StepFailedException(
                    step.name(), error == null ? "" : error.lines().findFirst().orElse(""));
        } else if (outcome instanceof Outcome.Broken broken) {
            throw broken.cause instanceof RuntimeException bug ? bug : new IllegalStateException(broken.cause);
        }
        StepRow row = ((Outcome.Retrying) outcome).row;
        throw recorder.suspendBecause(Waiting.until(row.wakeAt(), List.of(row)));
    }

    /** Executes a step unless its outcome is recorded. */
    private <T> Outcome execute(Step<T> step, StepRow row) {
        Outcome recorded = recorded(step, row);
        return recorded != null ? recorded : attemptIfDue(step, row);
    }

    /** Returns the recorded outcome of a step; null if it has none yet. */
    private @Nullable Outcome recorded(Step<?> step, StepRow row) {
        return switch (row.status()) {
            case "completed", "compensated", "compensation_failed" ->
                new Outcome.Completed(row, history.recorded(row, step.type()));
            case "failed" -> new Outcome.Failed(row);
            default -> {
                history.requireNotReplayOnly("step", step.name());
                yield null;
            }
        };
    }

    private Outcome attemptIfDue(Step<?> step, StepRow row) {
        Instant next = row.wakeAt();
        return next != null && next.isAfter(history.databaseNow()) ? new Outcome.Retrying(row) : attempt(step, row);
    }

    private Outcome attempt(Step<?> step, StepRow row) {
        var attempt = new StepAttempt(step, row);
        recorder.recordTimesAndUuids();
        try {
            executor.execute(attempt);
            return Objects.requireNonNull(attempt.completed);
        } catch (AttemptFailed failure) {
            Throwable cause = failure.getCause();
            StepRow failed = attempt.failed(failure);
            if (!runtime.isLastAttempt(step, attempt.number, cause)) {
                runtime.rows()
                        .log(
                                log,
                                Level.INFO,
                                "Workflow %s: step failed, to be retried".formatted(version.label()),
                                "Workflow {} run {}: step '{}' failed in attempt {}; next attempt at {}: {}",
                                version.label(),
                                job.id(),
                                step.name(),
                                attempt.number,
                                failed.wakeAt(),
                                ErrorText.brief(cause));
                return new Outcome.Retrying(failed);
            }
            recorder.record(failed, null);
            runtime.rows()
                    .warn(
                            log,
                            "Workflow %s: step failed".formatted(version.label()),
                            "Workflow {} run {}: step '{}' failed in its last attempt {}",
                            version.label(),
                            job.id(),
                            step.name(),
                            attempt.number,
                            ErrorText.loggable(cause));
            return new Outcome.Failed(failed);
        }
    }

    private final class StepAttempt implements StepExecutor.Attempt {

        private final Step<?> step;
        private final StepRow row;
        private final int number;
        private Outcome.@Nullable Completed completed;

        StepAttempt(Step<?> step, StepRow row) {
            this.step = step;
            this.row = row;
            this.number = row.attempts() + 1;
        }

        @Override
        public Step<?> step() {
            return step;
        }

        @Override
        public boolean isCompensation() {
            return false;
        }

        @Override
        public @Nullable Object call() throws Exception {
            return step.action().call();
        }

        @Override
        public StepRow completed(@Nullable Object returned, long ranMillis) {
            StepRow done = row.withError("completed", number, null)
                    .withResult("completed", history.toJson(returned))
                    .withWakeAt(null)
                    .withRanMillis(number, ranMillis);
            completed = new Outcome.Completed(done, history.readBack(done, step.type()));
            return done;
        }

        @Override
        public StepRow failed(AttemptFailed failure) {
            Throwable cause = failure.getCause();
            boolean last = runtime.isLastAttempt(step, number, cause);
            return row.withError(last ? "failed" : "retrying", number, failure.text())
                    .withWakeAt(last ? null : history.databaseNow().plus(runtime.pauseBeforeRetry(step, number, cause)))
                    .withRanMillis(number, failure.ranMillis());
        }

        @Override
        public StepRow repeated(String error, Instant next) {
            return row.withError("retrying", row.attempts(), error).withWakeAt(next);
        }
    }

    // Parallel steps ----------------------------------------------------------------------------------------

    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    <T> List<T> all(List<? extends Step<? extends T>> steps) {
        steps.forEach(WorkflowSteps::requireValue);
        if (history.isReplayOnly()) {
            return replay(steps);
        }
        List<Callable<Outcome>> tasks = new ArrayList<>();
        int first = history.position();
        for (Step<? extends T> step : steps) {
            StepRow row = nextRow(step).withParallelGroup(first);
            // Here, so that no step of the group is attempted if a recorded result cannot be read.
            Outcome recorded = recorded(step, row);
            tasks.add(() -> recorded != null ? recorded : attemptIfDue(step, row));
        }
        List<Outcome> outcomes = new ParallelBranches(runtime, version, job, recorder).run(tasks, Outcome.Broken::new);
        boolean broken = outcomes.stream().anyMatch(Outcome.Broken.class::isInstance);
        List<StepRow> retrying = outcomes.stream()
                .filter(Outcome.Retrying.class::isInstance)
                .map(outcome -> ((Outcome.Retrying) outcome).row)
                .toList();
        if (!retrying.isEmpty() && !broken) {
            Instant earliest = retrying.stream()
                    .map(StepRow::wakeAt)
                    .filter(Objects::nonNull)
                    .min(Instant::compareTo)
                    .orElseGet(history::databaseNow);
            throw recorder.suspendBecause(Waiting.until(earliest, retrying));
        }
        return unwrapAll(steps, outcomes);
    }

    /** Replays those of the steps that are recorded: they are compensated even if others did not complete. */
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> replay(List<? extends Step<? extends T>> steps) {
        List<Step<? extends T>> replayed = new ArrayList<>();
        List<Outcome> outcomes = new ArrayList<>();
        for (Step<? extends T> step : steps) {
            if (history.skipUnrecorded()) {
                history.incomplete("step", step.name());
                continue;
            }
            StepRow recorded = nextRow(step);
            if (recorded.status().equals("retrying")) {
                history.incomplete("step", step.name());
            } else {
                replayed.add(step);
                outcomes.add(execute(step, recorded));
            }
        }
        if (replayed.size() == steps.size()) {
            return unwrapAll(replayed, outcomes);
        }
        try {
            unwrapAll(replayed, outcomes);
        } catch (StepFailedException e) {
            log.debug("One of the parallel steps had failed before all were completed", e);
        }
        throw recorder.suspendBecause(Interruption.HISTORY_EXHAUSTED);
    }

    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    private <T> List<T> unwrapAll(List<? extends Step<? extends T>> steps, List<Outcome> outcomes) {
        List<T> values = new ArrayList<>();
        RuntimeException failure = null;
        for (int i = 0; i < outcomes.size(); i++) {
            if (outcomes.get(i) instanceof Outcome.Retrying) {
                // Another outcome is broken, which fails the run.
                continue;
            }
            try {
                values.add(unwrap(steps.get(i), outcomes.get(i)));
            } catch (RuntimeException e) {
                // Thrown after the loop: completed steps that follow may have to be compensated.
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return values;
    }
}

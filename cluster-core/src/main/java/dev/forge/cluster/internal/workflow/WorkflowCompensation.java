// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.StepExecutor.AttemptFailed;
import dev.forge.cluster.internal.workflow.StepExecutor.StepRuntime;
import dev.forge.cluster.internal.workflow.WorkflowCompensation.Compensable.CompletedChild;
import dev.forge.cluster.internal.workflow.WorkflowCompensation.Compensable.CompletedStep;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Compensates a run: first the awaited child, which was cancelled with the run, then the completed steps, jobs and children in
 * reverse order.
 */
final class WorkflowCompensation {

    private static final Logger log = GuardedLogger.of(WorkflowCompensation.class);

    private final StepRuntime runtime;
    private final RecordedRun recorded;
    private final Claim job;
    private final WorkflowHistory history;
    private final RunRecorder recorder;
    private final StepExecutor executor;
    private final AwaitedJobs awaited;

    WorkflowCompensation(
            StepRuntime runtime, RecordedRun recorded, Claim job, StepExecutor executor, AwaitedJobs awaited) {
        this.runtime = runtime;
        this.recorded = recorded;
        this.job = job;
        this.history = awaited.history();
        this.recorder = history.recorder();
        this.executor = executor;
        this.awaited = awaited;
    }

    /** A completed step, job or child that is compensated if the run fails or is cancelled. */
    sealed interface Compensable {

        StepRow row();

        /** A completed child without a compensation of its own in the parent: the child compensates its own steps. */
        record CompletedChild(StepRow row) implements Compensable {}

        /**
         * A completed step, job or child with a compensation.
         *
         * @param result of the step, which the compensation receives
         */
        record CompletedStep<T>(
                StepRow row,
                Step<T> step,
                Step.Compensation<T> compensation,
                @Nullable T result) implements Compensable {

            int nextAttempt() {
                return row.compensationAttempts() + 1;
            }

            @SuppressWarnings("NullAway") // The compensation of a step without a result receives null.
            void compensate() throws Exception {
                compensation.compensate(result);
            }
        }
    }

    /** What the run does next. */
    sealed interface Result {
        record Wait(Waiting waiting) implements Result {}

        record End(WorkflowStatus status, @Nullable String error) implements Result {}
    }

    /** Compensates as much as is possible now. */
    Result run(List<Compensable> compensables) {
        WorkflowInfo child = recorder.guarded(this::awaitedChild).orElse(null);
        if (child != null && !child.status().isFinal()) {
            return new Result.Wait(awaited.waitForChild(child.id()));
        }
        for (int i = compensables.size() - 1; i >= 0; i--) {
            Compensable compensable = compensables.get(i);
            if (compensable.row().status().equals("completed")) {
                Result unfinished = compensable instanceof CompletedStep<?> step
                        ? compensate(step)
                        : compensate((CompletedChild) compensable);
                if (unfinished != null) {
                    return unfinished;
                }
            }
        }
        // A child that has merely failed has compensated its steps, or had nothing to compensate.
        if (child != null && child.status() == WorkflowStatus.FAILED && hasFailedCompensation(child)) {
            return new Result.End(WorkflowStatus.FAILED, notCompensated(child));
        }
        boolean compensated = recorded.cancelled() || !compensables.isEmpty();
        return new Result.End(compensated ? WorkflowStatus.COMPENSATED : WorkflowStatus.FAILED, null);
    }

    private Optional<WorkflowInfo> awaitedChild() {
        return recorded.steps().values().stream()
                .filter(row -> row.kind().equals("child") && row.status().equals("waiting"))
                .map(StepRow::ref)
                .filter(Objects::nonNull)
                .findFirst()
                .flatMap(awaited::findChild);
    }

    private static boolean hasFailedCompensation(WorkflowInfo child) {
        return child.steps().stream().anyMatch(step -> step.status() == StepStatus.COMPENSATION_FAILED);
    }

    private static String notCompensated(WorkflowInfo child) {
        return ErrorText.storable("Child run %s could not be compensated; it is %s: %s"
                .formatted(child.id(), child.status(), child.lastError()));
    }

    /**
     * Compensates a completed child and waits for it; returns null when it is compensated. The recorded compensation attempt tells a
     * child that has failed to compensate from one whose compensation has not begun.
     */
    private @Nullable Result compensate(CompletedChild completed) {
        StepRow row = completed.row();
        UUID id = Objects.requireNonNull(row.ref());
        WorkflowInfo child = recorder.guarded(() -> awaited.findChild(id)).orElse(null);
        if (child != null && !child.status().isFinal()) {
            return new Result.Wait(awaited.waitForChild(id));
        }
        if (child != null && child.status() == WorkflowStatus.COMPENSATED) {
            recorder.recordLater(
                    row.withCompensation("compensated", Math.max(1, row.compensationAttempts()), null, null));
            return null;
        }
        boolean asked = row.compensationAttempts() > 0;
        boolean canCompensate = child != null
                && (child.status() == WorkflowStatus.COMPLETED || child.status() == WorkflowStatus.FAILED);
        if (canCompensate && !asked) {
            return new Result.Wait(awaited.reopenChild(row));
        }
        String error = child == null
                ? "Child run %s could not be compensated: it was deleted".formatted(id)
                : notCompensated(child);
        runtime.rows()
                .warn(
                        log,
                        "Workflow %s: child not compensated"
                                .formatted(awaited.version().label()),
                        "Workflow {} run {}: {}",
                        awaited.version().label(),
                        job.id(),
                        ErrorText.firstLine(error));
        recorder.recordLater(
                row.withCompensation("compensation_failed", Math.max(1, row.compensationAttempts()), error, null));
        return new Result.End(WorkflowStatus.FAILED, error);
    }

    /** Compensates a step; returns null if that has succeeded. */
    private @Nullable Result compensate(CompletedStep<?> completed) {
        StepRow row = completed.row();
        Step<?> step = completed.step();
        Instant next = row.wakeAt();
        if (next != null && next.isAfter(history.databaseNow())) {
            return new Result.Wait(Waiting.until(next, List.of()));
        }
        var attempt = new CompensationAttempt(completed);
        try {
            executor.execute(attempt);
            return null;
        } catch (AttemptFailed failure) {
            int number = completed.nextAttempt();
            if (!runtime.isLastCompensationAttempt(number, failure.getCause())) {
                StepRow failed = attempt.failed(failure);
                return new Result.Wait(Waiting.until(failed.wakeAt(), List.of(failed)));
            }
            runtime.rows()
                    .warn(
                            log,
                            "Workflow %s: compensation failed"
                                    .formatted(awaited.version().label()),
                            "Workflow {} run {}: the compensation of step '{}' failed in its last attempt {}. Mend its cause, then"
                                    + " continue the run with Workflows.retry.",
                            awaited.version().label(),
                            job.id(),
                            step.name(),
                            number,
                            ErrorText.loggable(failure.getCause()));
            recorder.recordLater(withRan(
                    row.withCompensation("compensation_failed", number, failure.text(), null), failure.ranMillis()));
            return new Result.End(
                    WorkflowStatus.FAILED,
                    ErrorText.storable(
                            "Step '%s' could not be compensated: %s".formatted(step.name(), failure.text())));
        }
    }

    /** The time of the compensation, not of the step. */
    private static StepRow withRan(StepRow row, long millis) {
        return row.withRanMillis(row.attempts(), millis);
    }

    private final class CompensationAttempt implements StepExecutor.Attempt {

        private final CompletedStep<?> completed;

        CompensationAttempt(CompletedStep<?> completed) {
            this.completed = completed;
        }

        @Override
        public Step<?> step() {
            return completed.step();
        }

        @Override
        public boolean isCompensation() {
            return true;
        }

        @Override
        public @Nullable Object call() throws Exception {
            completed.compensate();
            return null;
        }

        @Override
        public StepRow completed(@Nullable Object returned, long ranMillis) {
            return withRan(
                    completed.row().withCompensation("compensated", completed.nextAttempt(), null, null), ranMillis);
        }

        @Override
        public StepRow failed(AttemptFailed failure) {
            int number = completed.nextAttempt();
            Instant next = history.databaseNow().plus(runtime.pauseBeforeRetry(step(), number, failure.getCause()));
            return withRan(
                    completed.row().withCompensation("completed", number, failure.text(), next), failure.ranMillis());
        }

        @Override
        public StepRow repeated(String error, Instant next) {
            return completed.row().withCompensation("completed", completed.row().compensationAttempts(), error, next);
        }
    }
}

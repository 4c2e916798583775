// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.workflow.WorkflowCompensation.Compensable;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowJobs;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.NewRun;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DuplicateKeyException;

/**
 * The jobs and child runs that an execution starts and waits for, and the batches of jobs that it waits for. Jobs and children are started in the transaction that suspends the run; a
 * child is awaited through its job.
 */
final class AwaitedJobs {

    private static final Duration CHECK_AGAIN = Duration.ofSeconds(1);

    private final WorkflowEngine engine;
    private final WorkflowVersion version;
    private final Claim job;
    private final WorkflowHistory history;
    private final RunRecorder recorder;
    private final WorkflowSteps steps;

    AwaitedJobs(
            WorkflowEngine engine, WorkflowVersion version, Claim job, WorkflowHistory history, WorkflowSteps steps) {
        this.engine = engine;
        this.version = version;
        this.job = job;
        this.history = history;
        this.recorder = history.recorder();
        this.steps = steps;
    }

    WorkflowVersion version() {
        return version;
    }

    WorkflowHistory history() {
        return history;
    }

    <T> T job(String name, @Nullable Object payload, Type type, Step.@Nullable Compensation<T> compensation) {
        StepRow recorded = history.next("job", name);
        if (recorded == null) {
            StepRow row = history.newRow("job", name, "waiting");
            NewJob created = recorder.guarded(() -> engine.jobs()
                    .prepare(
                            name,
                            payload,
                            JobOptions.defaults()
                                    .withMetadata(
                                            WorkflowJobs.AWAITED_KEY, job.id().toString())));
            throw suspend(row, created.id(), () -> engine.insert(created, jobKey(row)));
        }
        return result(recorded, type, compensation, () -> {
            JobInfo awaited = engine.findJob(ref(recorded)).orElse(null);
            return awaited == null
                    ? new AwaitedState(true, false, null, "The job was deleted")
                    : new AwaitedState(
                            awaited.status().isFinal(),
                            awaited.status() == JobStatus.COMPLETED,
                            awaited.result(),
                            "The job is %s: %s".formatted(awaited.status(), awaited.lastError()));
        });
    }

    JobBatchStatus batch(String name, UUID batch) {
        StepRow recorded = history.next("batch", name);
        if (recorded == null) {
            throw suspend(history.newRow("batch", name, "waiting"), batch, () -> {});
        }
        return result(recorded, JobBatchStatus.class, null, () -> {
            JobBatchInfo awaited = engine.findBatch(ref(recorded)).orElse(null);
            if (awaited == null) {
                return new AwaitedState(true, false, null, "The batch is unknown");
            }
            boolean ended = awaited.endedAt() != null;
            return new AwaitedState(ended, ended, history.toJson(awaited.status()), "");
        });
    }

    <T> T child(String workflow, @Nullable Object input, Type type, Step.@Nullable Compensation<T> compensation) {
        StepRow recorded = history.next("child", workflow);
        if (recorded == null) {
            StepRow row = history.newRow("child", workflow, "waiting");
            // A child that was retried before this run was.
            UUID active = recorder.guarded(() -> engine.runs().findActiveChild(job.id(), jobKey(row)))
                    .orElse(null);
            if (active != null) {
                throw suspend(row, active, () -> {});
            }
            NewRun created = recorder.guarded(
                    () -> engine.prepare(workflow, input, null, new WorkflowEngine.Parent(job.id(), jobKey(row))));
            throw suspend(row, created.id(), () -> insert(created));
        }
        return result(recorded, type, compensation, () -> {
            WorkflowInfo child = engine.findChild(ref(recorded)).orElse(null);
            return child == null
                    ? new AwaitedState(true, false, null, "The child run was deleted")
                    : new AwaitedState(
                            child.status().isFinal(),
                            child.status() == WorkflowStatus.COMPLETED,
                            child.result(),
                            "The child run is %s: %s".formatted(child.status(), child.lastError()));
        });
    }

    private void insert(NewRun child) {
        try {
            engine.runs().insert(child);
        } catch (DuplicateKeyException e) {
            // Without its cause, which would count as a rejected value. The next execution waits for the other child.
            throw new ConcurrencyFailureException(
                    "Workflow run %s: a former child '%s' was retried while another one was being started"
                            .formatted(job.id(), child.version().label()));
        }
    }

    /** Returns the unique key of the job that a row refers to. */
    private String jobKey(StepRow row) {
        return "%s%s:%d".formatted(WorkflowVersion.JOB_PREFIX, job.id(), row.position());
    }

    private static UUID ref(StepRow row) {
        return Objects.requireNonNull(row.ref());
    }

    private WorkflowSuspension suspend(StepRow row, UUID awaited, Runnable inTransaction) {
        return recorder.suspendBecause(new Waiting(List.of(row.withRef(awaited)), null, null, awaited, inTransaction));
    }

    // Results -----------------------------------------------------------------------------------------------

    private record AwaitedState(
            boolean ended, boolean completed, @Nullable String result, String failure) {}

    @SuppressWarnings("NullAway") // A job that returns nothing returns null.
    private <T> T result(
            StepRow recorded,
            Type type,
            Step.@Nullable Compensation<T> compensation,
            Supplier<AwaitedState> currentState) {
        switch (recorded.status()) {
            case "completed", "compensated", "compensation_failed" -> {
                return completed(recorded, type, compensation);
            }
            case "failed" -> throw new StepFailedException(recorded.name(), recorded.error());
            default -> {}
        }
        AwaitedState state = recorder.guarded(currentState);
        if (history.isReplayOnly() && state.completed) {
            // The run was cancelled after the job had completed, but before the run had received its result.
            completed(recorded.withResult("completed", state.result), type, compensation);
        }
        history.requireNotReplayOnly(recorded.kind(), recorded.name());
        if (!state.ended) {
            throw recorder.suspendBecause(
                    recorded.kind().equals("child") ? waitForChild(ref(recorded)) : Waiting.forJob(ref(recorded)));
        }
        if (!state.completed) {
            recorder.record(recorded.withError("failed", 1, state.failure), null);
            throw new StepFailedException(recorded.name(), state.failure);
        }
        StepRow done = recorded.withResult("completed", state.result);
        try {
            recorder.requireWithinHistoryLimit(state.result);
        } catch (NonRetryableJobException e) {
            completed(done, type, compensation);
            throw e;
        }
        recorder.recordLater(done);
        return completed(done, type, compensation);
    }

    /** Returns the result of a completed job or child, which may have to be compensated later. */
    @SuppressWarnings("NullAway") // A job that returns nothing returns null.
    private <T> T completed(StepRow done, Type type, Step.@Nullable Compensation<T> compensation) {
        if (compensation == null && done.kind().equals("child")) {
            steps.add(new Compensable.CompletedChild(done));
        }
        T result = history.recorded(done, type);
        if (compensation != null) {
            Step<T> step = Step.of(done.name(), ParameterizedTypeReference.<T>forType(type), () -> null)
                    .withCompensation(compensation);
            steps.add(new Compensable.CompletedStep<>(done, step, compensation, result));
        }
        return result;
    }

    // Children ----------------------------------------------------------------------------------------------

    Optional<WorkflowInfo> findChild(UUID child) {
        return engine.findChild(child);
    }

    /**
     * Returns how to wait for a child that has not ended. If its job has ended or was deleted, no job would free this run: the
     * leader fails the child, or inserts a job for it, and this run checks again.
     */
    Waiting waitForChild(UUID child) {
        boolean hasActiveJob = recorder.guarded(() -> engine.findJob(child))
                .map(jobOfChild -> !jobOfChild.status().isFinal())
                .orElse(false);
        return hasActiveJob
                ? Waiting.forJob(child)
                : Waiting.until(history.databaseNow().plus(CHECK_AGAIN), List.of());
    }

    /** Returns how to let an ended child compensate its steps, and to wait for that. */
    Waiting reopenChild(StepRow row) {
        UUID child = ref(row);
        String reason = "parent run %s is compensated".formatted(job.id());
        return new Waiting(
                List.of(row.withCompensation("completed", 1, null, null)),
                null,
                null,
                child,
                () -> engine.commands().reopenChild(child, job.id(), jobKey(row), reason));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun.Signal;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.ParameterizedTypeReference;

/**
 * The context of one execution. A recorded call returns the recorded value; any other call is executed, or suspends the execution
 * if it has to wait.
 */
final class DefaultWorkflowContext implements WorkflowContext {

    private static final Logger log = GuardedLogger.of(DefaultWorkflowContext.class);
    private static final Duration LONGEST_WAIT = Duration.ofDays(36_500);

    private final Claim job;
    private final WorkflowSteps steps;
    private final AwaitedJobs awaited;
    private final WorkflowVersion version;
    private final WorkflowHistory history;
    private final RunRecorder recorder;
    private final PayloadJson json;
    private @Nullable String state;

    DefaultWorkflowContext(Claim job, WorkflowSteps steps, AwaitedJobs awaited, PayloadJson json) {
        this.job = job;
        this.steps = steps;
        this.awaited = awaited;
        this.version = awaited.version();
        this.history = awaited.history();
        this.recorder = history.recorder();
        this.json = json;
    }

    @Override
    public UUID id() {
        return job.id();
    }

    @Override
    public String name() {
        return version.workflow();
    }

    @Override
    public String version() {
        return version.version();
    }

    // Steps, jobs and children ------------------------------------------------------------------------------

    @Override
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    public <T> T step(Step<T> step) {
        return steps.step(step);
    }

    @Override
    public <T> List<T> all(List<? extends Step<? extends T>> several) {
        return steps.all(several);
    }

    @Override
    public <T> T job(String name, @Nullable Object payload, Class<T> type) {
        return awaited.job(name, payload, type, null);
    }

    @Override
    public <T> T job(String name, @Nullable Object payload, ParameterizedTypeReference<T> type) {
        return awaited.job(name, payload, type.getType(), null);
    }

    @Override
    public <T> T job(
            String name, @Nullable Object payload, Class<T> type, Step.@Nullable Compensation<T> compensation) {
        return awaited.job(name, payload, type, compensation);
    }

    @Override
    public JobBatchStatus awaitBatch(String name, UUID batch) {
        Arguments.required("WorkflowContext.awaitBatch", "batch", batch);
        return awaited.batch(name, batch);
    }

    @Override
    public <T> T child(String workflow, @Nullable Object input, Class<T> type) {
        return awaited.child(workflow, input, type, null);
    }

    @Override
    public <T> T child(String workflow, @Nullable Object input, ParameterizedTypeReference<T> type) {
        return awaited.child(workflow, input, type.getType(), null);
    }

    @Override
    public <T> T child(
            String workflow, @Nullable Object input, Class<T> type, Step.@Nullable Compensation<T> compensation) {
        return awaited.child(workflow, input, type, compensation);
    }

    // Time and signals --------------------------------------------------------------------------------------

    private static Duration bounded(String call, Duration duration) {
        if (duration.isNegative() || duration.compareTo(LONGEST_WAIT) > 0) {
            throw new IllegalArgumentException(
                    "%s: the duration %s must lie between zero and a hundred years".formatted(call, duration));
        }
        return duration;
    }

    @Override
    public void sleep(String name, Duration duration) {
        bounded("sleep '%s'".formatted(name), duration);
        StepRow recorded = history.next("sleep", name);
        if (recorded != null && recorded.status().equals("completed")) {
            return;
        }
        StepRow row = recorded != null
                ? recorded
                : history.newRow("sleep", name, "waiting")
                        .withWakeAt(history.databaseNow().plus(duration));
        Instant until = Objects.requireNonNull(row.wakeAt());
        if (until.isAfter(history.databaseNow())) {
            history.requireNotReplayOnly("sleep", name);
            throw recorder.suspendBecause(Waiting.until(until, List.of(row)));
        }
        recorder.recordLater(row.withResult("completed", null));
    }

    @Override
    public <T> T awaitSignal(String name, Class<T> type) {
        return awaitSignalAs(name, type);
    }

    @Override
    public <T> T awaitSignal(String name, ParameterizedTypeReference<T> type) {
        return awaitSignalAs(name, type.getType());
    }

    @SuppressWarnings({"NullAway", "TypeParameterUnusedInFormals"}) // A signal without payload is null.
    private <T> T awaitSignalAs(String name, Type type) {
        Received<T> received = receive(name, type, null);
        return received == null ? null : received.payload;
    }

    @Override
    public <T> Optional<T> awaitSignal(String name, Class<T> type, Duration timeout) {
        return awaitSignalAs(name, type, timeout);
    }

    @Override
    public <T> Optional<T> awaitSignal(String name, ParameterizedTypeReference<T> type, Duration timeout) {
        return awaitSignalAs(name, type.getType(), timeout);
    }

    private <T> Optional<T> awaitSignalAs(String name, Type type, Duration timeout) {
        if (type == Void.class || type == void.class) {
            throw new IllegalArgumentException(
                    "Signal '%s' without payload: an empty result would not tell the signal from the timeout. Use awaitSignal(name, timeout)."
                            .formatted(name));
        }
        Received<T> received = receive(name, type, bounded("signal '%s'".formatted(name), timeout));
        return received == null ? Optional.empty() : Optional.ofNullable(received.payload);
    }

    @Override
    public boolean awaitSignal(String name, Duration timeout) {
        return receive(name, Void.class, bounded("signal '%s'".formatted(name), timeout)) != null;
    }

    private record Received<T>(@Nullable T payload) {}

    /** Returns a signal; null if none was sent in time. */
    private <T> @Nullable Received<T> receive(String name, Type type, @Nullable Duration timeout) {
        StepRow recorded = history.next("signal", name);
        if (recorded != null && !recorded.status().equals("waiting")) {
            return recorded.status().equals("timed_out") ? null : new Received<>(history.recorded(recorded, type));
        }
        history.requireNotReplayOnly("signal", name);
        StepRow row = recorded != null
                ? recorded
                : history.newRow("signal", name, "waiting")
                        .withWakeAt(
                                timeout == null ? null : history.databaseNow().plus(timeout));
        for (Signal signal = history.takeSignal(name); signal != null; signal = history.takeSignal(name)) {
            StepRow consumed = row.withResult("completed", signal.payload());
            Received<T> received = read(consumed, type);
            if (received != null && (received.payload != null || timeout == null || type == Void.class)) {
                recorder.requireWithinHistoryLimit(consumed.result());
                recorder.record(consumed, signal.id());
                return received;
            }
            log.warn(
                    "Workflow {} run {}: signal '{}' ({}) discarded, its payload is not a {}",
                    version.label(),
                    id(),
                    name,
                    signal.id(),
                    type.getTypeName());
            recorder.discardSignal(signal.id());
        }
        Instant deadline = row.wakeAt();
        // Compared with the time of the snapshot: a signal that was sent before the deadline must have been seen.
        if (deadline != null && !deadline.isAfter(history.readAt())) {
            recorder.record(row.withResult("timed_out", null), null);
            return null;
        }
        throw recorder.suspendBecause(new Waiting(List.of(row), deadline, name, null));
    }

    /** Returns null if the payload cannot be read as that type. */
    private <T> @Nullable Received<T> read(StepRow consumed, Type type) {
        try {
            return new Received<>(history.read(consumed, type));
        } catch (RuntimeException e) {
            log.debug(
                    "Workflow {} run {}: the payload of signal '{}' cannot be read as {}",
                    version.label(),
                    id(),
                    consumed.name(),
                    type.getTypeName(),
                    ErrorText.loggable(e));
            return null;
        }
    }

    // Recorded values ---------------------------------------------------------------------------------------

    @Override
    public Instant now() {
        StepRow recorded = history.next("now", "now");
        if (recorded != null) {
            return Instant.parse(Objects.requireNonNull(history.recorded(recorded, String.class)));
        }
        Instant now = history.databaseNow();
        recorder.recordLater(history.newRow("now", "now", "completed").withResult("completed", "\"" + now + "\""));
        return now;
    }

    @Override
    public UUID randomUuid() {
        StepRow recorded = history.next("uuid", "uuid");
        if (recorded != null) {
            return UUID.fromString(Objects.requireNonNull(history.recorded(recorded, String.class)));
        }
        UUID random = UUID.randomUUID();
        recorder.recordLater(history.newRow("uuid", "uuid", "completed").withResult("completed", "\"" + random + "\""));
        return random;
    }

    @Override
    public void saveState(Object value) {
        StepRow recorded = history.next("state", "state");
        if (recorded != null) {
            state = recorded.result();
            return;
        }
        String text = json.write(value);
        recorder.requireWithinHistoryLimit(text);
        state = text;
        recorder.recordLater(history.newRow("state", "state", "completed").withResult("completed", state));
    }

    @Override
    public <T> Optional<T> state(Class<T> type) {
        return stateAs(type);
    }

    @Override
    public <T> Optional<T> state(ParameterizedTypeReference<T> type) {
        return stateAs(type.getType());
    }

    private <T> Optional<T> stateAs(Type type) {
        String saved = state;
        return saved == null ? Optional.empty() : Optional.ofNullable(json.readAs(saved, type));
    }

    @Override
    public void progress(int percent, String message) {
        job.progress(percent, message);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.HistoryMismatch;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Interruption;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun.Signal;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore;
import dev.forge.cluster.job.NonRetryableJobException;
import java.lang.reflect.Type;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Replays the recorded history of a run, in the order in which its method makes the calls; used by one execution. */
final class WorkflowHistory {

    private final RunRecorder recorder;
    private final WorkflowSignalStore signalStore;
    private final PayloadJson json;
    private final LongSupplier nanos;
    private final RecordedRun recorded;
    private final long readAtNanos;
    private final List<Signal> signals;
    private final Thread thread = Thread.currentThread();
    private final AtomicInteger runningSteps = new AtomicInteger();
    private int position;
    private @Nullable String firstIncomplete;

    WorkflowHistory(
            RunRecorder recorder,
            WorkflowSignalStore signalStore,
            PayloadJson json,
            LongSupplier nanos,
            RecordedRun recorded) {
        this.recorder = recorder;
        this.signalStore = signalStore;
        this.json = json;
        this.nanos = nanos;
        this.recorded = recorded;
        this.readAtNanos = nanos.getAsLong();
        this.signals = new ArrayList<>(recorded.signals());
    }

    /** Returns the recorder of the same execution. */
    RunRecorder recorder() {
        return recorder;
    }

    // Calls of the method -----------------------------------------------------------------------------------

    /** Returns the recorded row of the method's next call; null if the call is not recorded. */
    @Nullable
    StepRow next(String kind, String name) {
        Names.require(kind + " name", name);
        if (Thread.currentThread() != thread && runningSteps.get() == 0) {
            throw new IllegalStateException(
                    "%s '%s' on another thread: only the thread of the workflow method may use its context"
                            .formatted(kind, name));
        }
        if (runningSteps.get() > 0) {
            throw new IllegalStateException(
                    "%s '%s' within a step: only the workflow method itself may use its context".formatted(kind, name));
        }
        recorder.requireNotSuspended();
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException(
                    "%s '%s' within a transaction: a rollback would discard the recorded history. Use a"
                                    .formatted(kind, name)
                            + " transactionalStep, and no @Transactional on the workflow method.");
        }
        recorder.requireNotStopping();
        int at = position++;
        StepRow row = recorded.steps().get(at);
        if (row == null) {
            requireNotReplayOnly(kind, name);
            return null;
        }
        if (!row.kind().equals(kind) || !row.name().equals(name)) {
            throw recorder.suspendBecause(new HistoryMismatch("%s, but the method calls %s"
                    .formatted(mismatchAt(row), describe(StepRow.of(at, name, kind, "")))));
        }
        return row;
    }

    /** Creates the row of the call for which {@link #next} has returned null. */
    StepRow newRow(String kind, String name, String status) {
        return StepRow.of(position - 1, name, kind, status);
    }

    /** Skips the next position if it is not recorded; returns whether it did. */
    boolean skipUnrecorded() {
        boolean unrecorded = !recorded.steps().containsKey(position);
        if (unrecorded) {
            position++;
        }
        return unrecorded;
    }

    /** Returns the position of the next call. */
    int position() {
        return position;
    }

    /** Returns the first recorded row whose call the method has not made. */
    @Nullable
    StepRow firstNotReplayed() {
        return recorded.steps().values().stream()
                .filter(row -> row.position() >= position)
                .min(Comparator.comparingInt(StepRow::position))
                .orElse(null);
    }

    /** Notes a call that is not recorded as completed: a replay ends there, or after the other steps of a parallel group. */
    void incomplete(String kind, String name) {
        if (firstIncomplete == null) {
            firstIncomplete = describe(StepRow.of(position, name, kind, ""));
        }
    }

    /** Returns the first call that is not recorded as completed, at which a replay ended. */
    String firstIncomplete() {
        return firstIncomplete == null ? "nothing" : firstIncomplete;
    }

    static String mismatchAt(StepRow row) {
        return "History mismatch at position %d: recorded %s".formatted(row.position(), describe(row));
    }

    private static String describe(StepRow row) {
        return "%s '%s'".formatted(row.kind(), row.name());
    }

    /** Returns whether the method only runs to find what has to be compensated: nothing new is executed then. */
    boolean isReplayOnly() {
        return recorded.compensating();
    }

    /** Suspends the execution if it only replays: the call is not recorded as completed. */
    void requireNotReplayOnly(String kind, String name) {
        if (isReplayOnly()) {
            incomplete(kind, name);
            throw recorder.suspendBecause(Interruption.HISTORY_EXHAUSTED);
        }
    }

    /** Notes that the code of a step runs, which may not use the context. */
    void stepBegins() {
        runningSteps.incrementAndGet();
    }

    void stepEnds() {
        runningSteps.decrementAndGet();
    }

    /** Takes the oldest signal of that name; null if there is none. */
    @Nullable
    Signal takeSignal(String name) {
        Signal oldest = signals.stream()
                .filter(signal -> signal.name().equals(name))
                .findFirst()
                .orElse(null);
        if (oldest == null) {
            return null;
        }
        signals.remove(oldest);
        UUID id = oldest.id();
        return oldest.isPayloadRead()
                ? oldest
                : recorder.guarded(() -> new Signal(id, name, signalStore.payload(id), true));
    }

    /** Returns the time of the database, as far as this node can tell. */
    Instant databaseNow() {
        return recorded.readAt().plusNanos(nanos.getAsLong() - readAtNanos).truncatedTo(ChronoUnit.MICROS);
    }

    /** Returns when the signals were read, by the same clock. */
    Instant readAt() {
        return recorded.readAt();
    }

    // Values ------------------------------------------------------------------------------------------------

    /**
     * Returns the result of a row.
     *
     * @param <T> the given type
     */
    @SuppressWarnings("TypeParameterUnusedInFormals") // The caller's class or type reference has this type.
    <T> @Nullable T read(StepRow row, Type type) {
        String text = row.result();
        return text == null || type == Void.class ? null : json.readAs(text, type);
    }

    /**
     * Reads a value that the method has not received in this execution yet. If the method asks for another type than the one that
     * was recorded, the execution is suspended: a failure would compensate without this value, and the effects of its call would
     * stay.
     */
    @SuppressWarnings("TypeParameterUnusedInFormals") // The type is that of the step.
    <T> @Nullable T recorded(StepRow row, Type type) {
        try {
            return read(row, type);
        } catch (RuntimeException | LinkageError e) {
            throw recorder.suspendBecause(new HistoryMismatch("%s, whose result cannot be read as %s: %s"
                    .formatted(mismatchAt(row), type.getTypeName(), ErrorText.brief(e))));
        }
    }

    /** Reads the result that a step has just returned as each replay will read it, so that both are equal. */
    @Nullable
    Object readBack(StepRow row, Type type) {
        try {
            return read(row, type);
        } catch (RuntimeException e) {
            throw new NonRetryableJobException(
                    "The result of the step cannot be read back as %s: %s"
                            .formatted(type.getTypeName(), e.getMessage()),
                    e);
        }
    }

    /** Returns the result of a step as it is recorded. */
    @Nullable
    String toJson(@Nullable Object result) {
        try {
            String text = result == null ? null : json.write(result);
            recorder.requireWithinHistoryLimit(text);
            return text;
        } catch (IllegalArgumentException e) {
            throw new NonRetryableJobException("The result of the step " + e.getMessage(), e);
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.job.JobBatchStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * The run of a workflow; the first parameter of its method. Every call is recorded under its name and its position in the method.
 * When the method runs again, recorded results are replayed.
 *
 * <p>A method that has to wait is suspended by an {@link Error} that must not be caught. It runs again from the top when it can
 * continue. Until then the run occupies no memory.
 *
 * <p>Use this object only on the thread of the method, and not inside a step. Types of results and signals can be classes or, for
 * generic types, {@code new ParameterizedTypeReference<List<Order>>() {}}.
 */
public interface WorkflowContext {

    /** Returns the id of the run. */
    UUID id();

    /** Returns the name of the workflow. */
    String name();

    /** Returns the version with which the run started. */
    String version();

    /**
     * Runs a step and records its result. If the node dies in between, the step runs again: {@link #id} together with the
     * step's name is a good idempotency key for other systems.
     *
     * @throws StepFailedException if all attempts have failed
     */
    default <T> T step(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action));
    }

    /** Runs a step with a result of a generic type; see {@link #step(String, Class, Callable)}. */
    default <T> T step(String name, ParameterizedTypeReference<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action));
    }

    /** Runs a step with options: {@code step -> step.withMaxAttempts(3).withCompensation(...)}. */
    default <T> T step(
            String name, Class<T> type, Callable<? extends @Nullable T> action, UnaryOperator<Step<T>> options) {
        return step(options.apply(Step.of(name, type, action)));
    }

    /** Runs a step with a result of a generic type and with options; see {@link #step(String, Class, Callable, UnaryOperator)}. */
    default <T> T step(
            String name,
            ParameterizedTypeReference<T> type,
            Callable<? extends @Nullable T> action,
            UnaryOperator<Step<T>> options) {
        return step(options.apply(Step.of(name, type, action)));
    }

    /** Runs a step without a result. */
    default void step(String name, Step.Effect action) {
        step(Step.of(name, Void.class, () -> {
            action.run();
            return null;
        }));
    }

    /**
     * Runs a step in a transaction of its own whose last statement records the step: its writes to the cluster's database have
     * exactly-once effects, whichever node dies when.
     */
    default <T> T transactionalStep(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action).withTransaction());
    }

    /** Runs a transactional step with options. Its compensation runs in a transaction, too. */
    default <T> T transactionalStep(
            String name, Class<T> type, Callable<? extends @Nullable T> action, UnaryOperator<Step<T>> options) {
        return step(options.apply(Step.of(name, type, action).withTransaction()));
    }

    /** Runs a transactional step with a result of a generic type; see {@link #transactionalStep(String, Class, Callable)}. */
    default <T> T transactionalStep(
            String name, ParameterizedTypeReference<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action).withTransaction());
    }

    /** Runs a transactional step without a result. */
    default void transactionalStep(String name, Step.Effect action) {
        step(Step.of(name, Void.class, () -> {
                    action.run();
                    return null;
                })
                .withTransaction());
    }

    /** Runs a step. Returns null for a step without a result. */
    <T> T step(Step<T> step);

    /**
     * Runs steps in parallel, each on its own thread, and returns their results in order. All of them end before the failure of
     * one is thrown.
     */
    <T> List<T> all(List<? extends Step<? extends T>> steps);

    /** Suspends the run for that time, which can be days. */
    void sleep(String name, Duration duration);

    /**
     * Waits for a signal of that name and returns its payload. A signal that arrived earlier is consumed immediately. Each signal is
     * consumed once, the oldest first.
     */
    <T> T awaitSignal(String name, Class<T> type);

    /** Waits for a signal with a payload of a generic type; see {@link #awaitSignal(String, Class)}. */
    <T> T awaitSignal(String name, ParameterizedTypeReference<T> type);

    /**
     * Waits for a signal at most for {@code timeout}; empty if none arrived. A signal that has no payload, or whose payload cannot
     * be read, is set aside.
     */
    <T> Optional<T> awaitSignal(String name, Class<T> type, Duration timeout);

    /** Waits for a signal with a payload of a generic type; see {@link #awaitSignal(String, Class, Duration)}. */
    <T> Optional<T> awaitSignal(String name, ParameterizedTypeReference<T> type, Duration timeout);

    /** Waits for a signal whose payload does not matter; false if none arrived in time. */
    boolean awaitSignal(String name, Duration timeout);

    /**
     * Enqueues a job by name and waits for its result, which is kept until the run has read it, whatever the job's retention is.
     *
     * @throws StepFailedException if the job does not complete
     */
    <T> T job(String name, @Nullable Object payload, Class<T> type);

    /** Enqueues a job and waits for a result of a generic type; see {@link #job(String, Object, Class)}. */
    <T> T job(String name, @Nullable Object payload, ParameterizedTypeReference<T> type);

    /**
     * Enqueues a job and waits for its result, as {@link #job(String, Object, Class)} does, and compensates it if the run fails or
     * is cancelled later. A job without compensation stays as it is.
     *
     * @param compensation runs at least once, with the job's result; null: none
     * @throws StepFailedException if the job does not complete
     */
    <T> T job(String name, @Nullable Object payload, Class<T> type, Step.@Nullable Compensation<T> compensation);

    /**
     * Waits until a batch of jobs has ended, which a step has opened. The batch must be closed, or it never ends.
     *
     * @param name the name of the wait, like that of a step
     * @return how the batch ended: succeeded, failed or cancelled
     * @throws StepFailedException if the batch is unknown
     */
    JobBatchStatus awaitBatch(String name, UUID batch);

    /**
     * Starts a run of another workflow and waits for its result. If this run is cancelled, the child is cancelled, too. If this run
     * fails or is cancelled after the child has completed, the child compensates its steps in reverse order when it is its turn.
     *
     * @throws StepFailedException if the child does not complete
     */
    <T> T child(String workflow, @Nullable Object input, Class<T> type);

    /** Starts a child and waits for a result of a generic type; see {@link #child(String, Object, Class)}. */
    <T> T child(String workflow, @Nullable Object input, ParameterizedTypeReference<T> type);

    /**
     * Starts a run of another workflow, as {@link #child(String, Object, Class)} does, with a compensation that replaces those of
     * the child's steps once the child has completed. A child that fails compensates its steps in any case.
     *
     * @param compensation runs at least once, with the child's result; null: the child compensates its steps
     * @throws StepFailedException if the child does not complete
     */
    <T> T child(String workflow, @Nullable Object input, Class<T> type, Step.@Nullable Compensation<T> compensation);

    /** Returns the time by the database's clock. It is recorded and replayed. */
    Instant now();

    /** Returns a random UUID that is recorded and replayed. */
    UUID randomUuid();

    /** Records a state for {@link #state} and for operators; the latest wins. */
    void saveState(Object state);

    /** Returns the state that was saved last before this point of the method. */
    <T> Optional<T> state(Class<T> type);

    /** Returns the saved state as a generic type. */
    <T> Optional<T> state(ParameterizedTypeReference<T> type);

    /** Publishes the progress of the run. Can be called inside steps, too. */
    void progress(int percent, String message);
}

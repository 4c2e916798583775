package dev.forge.cluster.workflow;

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
 * A run of a workflow, as its method sees it. Everything that is done through it is remembered under its name and its place
 * in the method; a method that runs again is given what is remembered.
 *
 * <p>A method that has to wait ends in the middle, by an {@link Error} that must not be caught, and runs again from the top
 * when there is something to go on with. Until then nothing of it is in memory.
 *
 * <p>For the thread of the method only, and not within a step.
 */
public interface WorkflowContext {

    /** The id of the run. */
    UUID id();

    /** The name of the workflow. */
    String name();

    /** The version that it began with. */
    String version();

    /**
     * Runs a step and remembers what it returns. Should the node die between the two it runs again: {@link #id} and the
     * step's name make a good idempotency key for other systems.
     *
     * @throws StepFailedException if it has failed as often as it may
     */
    default <T> T step(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action));
    }

    /** The same for what no class says: {@code new ParameterizedTypeReference<List<Order>>() {}}. */
    default <T> T step(String name, ParameterizedTypeReference<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action));
    }

    /** The same, with retries, a timeout, a compensation: {@code step -> step.attempts(3).compensate(...)}. */
    default <T> T step(
            String name, Class<T> type, Callable<? extends @Nullable T> action, UnaryOperator<Step<T>> options) {
        return step(options.apply(Step.of(name, type, action)));
    }

    /** Runs a step that returns nothing. */
    default void step(String name, Step.Effect action) {
        step(Step.of(name, Void.class, () -> {
            action.run();
            return null;
        }));
    }

    /**
     * Runs a step in a transaction of its own, whose last statement remembers it: what it writes to the cluster's database
     * happens exactly once, whoever dies when.
     */
    default <T> T transactionalStep(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return step(Step.of(name, type, action).inTransaction());
    }

    /** The same, with retries, a timeout, a compensation, which then has a transaction too. */
    default <T> T transactionalStep(
            String name, Class<T> type, Callable<? extends @Nullable T> action, UnaryOperator<Step<T>> options) {
        return step(options.apply(Step.of(name, type, action).inTransaction()));
    }

    /** Runs a step; null is what a step returns that returns nothing. */
    <T> T step(Step<T> step);

    /**
     * Runs steps side by side, each on a thread of its own, and answers what they return, in their order. All of them come
     * to an end before one that has failed is reported.
     */
    <T> List<T> all(List<? extends Step<? extends T>> steps);

    /** Waits, for days if need be. */
    void sleep(String name, Duration duration);

    /** Waits for a signal of that name; one that came before is taken at once. Each is taken once, the oldest first. */
    <T> T awaitSignal(String name, Class<T> type);

    /** The same; empty when none has come in time. One without payload, or that cannot be read, is set aside. */
    <T> Optional<T> awaitSignal(String name, Class<T> type, Duration timeout);

    /** The same for one whose payload does not matter; false when none has come in time. */
    boolean awaitSignal(String name, Duration timeout);

    /**
     * Enqueues a job by name and waits for its result, which is kept until the run has seen it, whatever its retention.
     *
     * @throws StepFailedException if it does not complete
     */
    <T> T job(String name, @Nullable Object payload, Class<T> type);

    /**
     * Enqueues a job and waits for its result, as {@link #job(String, Object, Class)} does, and compensates it if the run fails
     * or is cancelled later. A job without compensation is left as it is.
     *
     * @param compensation runs at least once, with the job's result; null: none
     * @throws StepFailedException if it does not complete
     */
    <T> T job(String name, @Nullable Object payload, Class<T> type, Step.@Nullable Compensation<T> compensation);

    /**
     * Starts a run of another workflow and waits for its result. Cancelling this run cancels that one. If this run fails or is
     * cancelled after the child has completed, the child compensates its steps, in reverse order, when it is its turn.
     *
     * @throws StepFailedException if it does not complete
     */
    <T> T child(String workflow, @Nullable Object input, Class<T> type);

    /**
     * Starts a run of another workflow, as {@link #child(String, Object, Class)} does, with a compensation of its own. It
     * replaces those of the child's steps once the child has completed; a child that fails compensates itself in any case.
     *
     * @param compensation runs at least once, with the child's result; null: the child compensates its steps
     * @throws StepFailedException if it does not complete
     */
    <T> T child(String workflow, @Nullable Object input, Class<T> type, Step.@Nullable Compensation<T> compensation);

    /** The time, by the database's clock; the same whenever the method runs again. */
    Instant now();

    /** By chance once, and the same from then on. */
    UUID randomUuid();

    /** Remembers something for {@link #state} and for people; the latest counts. */
    void saveState(Object state);

    /** What was saved last, by this point of the method. */
    <T> Optional<T> state(Class<T> type);

    /** Shows how far it is; in steps, too. */
    void progress(int percent, String message);
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.BackoffStrategy;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * A step of a workflow: an action and what happens if it fails. Immutable; each {@code with} method returns a changed copy, and
 * throws {@link IllegalArgumentException} for null and for values out of range.
 *
 * @param <T> the type of the result
 */
public final class Step<T> {

    private final String name;
    private final Type type;
    private final Callable<? extends @Nullable T> action;
    private final Options<T> options;

    private record Options<T>(
            boolean transactional,
            @Nullable Integer maxAttempts,
            @Nullable BackoffStrategy backoff,
            @Nullable Duration timeout,
            @Nullable Compensation<T> compensation) {}

    private Step(String name, Type type, Callable<? extends @Nullable T> action, Options<T> options) {
        this.name = name;
        this.type = type;
        this.action = action;
        this.options = options;
    }

    private static <T> Step<T> create(String name, Type type, Callable<? extends @Nullable T> action) {
        required("of", "name", name);
        required("of", "type", type);
        required("of", "action", action);
        if (name.isBlank() || name.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("Step.of: name ('%s') must not be blank or contain NUL".formatted(name));
        }
        return new Step<>(name, type, action, new Options<>(false, null, null, null, null));
    }

    /** Compensates a completed step. Runs at least once; for a transactional step in a transaction, with exactly-once effects. */
    @FunctionalInterface
    public interface Compensation<T> {

        /**
         * Compensates the step.
         *
         * @param result the result of the step
         */
        void compensate(T result) throws Exception;
    }

    /** The action of a step without a result. */
    @FunctionalInterface
    public interface Effect {

        /** Performs the action. */
        void run() throws Exception;
    }

    /**
     * Creates a step that runs at least once.
     *
     * @param name the name; together with its position in the method it identifies the step in the history
     * @param type the type of the result; if the action returns a future, the type of its value
     */
    public static <T> Step<T> of(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return create(name, type, action);
    }

    /** Creates a step with a generic result: {@code new ParameterizedTypeReference<List<Order>>() {}}. */
    public static <T> Step<T> of(
            String name, ParameterizedTypeReference<T> type, Callable<? extends @Nullable T> action) {
        required("of", "type", type);
        return create(name, type.getType(), action);
    }

    /** Runs the step in a transaction of its own whose last statement records it: its writes have exactly-once effects. */
    public Step<T> withTransaction() {
        return with(new Options<>(true, options.maxAttempts, options.backoff, options.timeout, options.compensation));
    }

    /** Sets the number of attempts. Default: {@code forge.cluster.job.max-attempts}. */
    public Step<T> withMaxAttempts(int maxAttempts) {
        if (maxAttempts < 1) {
            throw new IllegalArgumentException(
                    "Step.withMaxAttempts: maxAttempts (%d) must be at least 1".formatted(maxAttempts));
        }
        return with(new Options<>(
                options.transactional, maxAttempts, options.backoff, options.timeout, options.compensation));
    }

    /** Sets the delay between attempts. Default: {@code forge.cluster.job.backoff}. */
    public Step<T> withBackoff(BackoffStrategy backoff) {
        required("withBackoff", "backoff", backoff);
        return with(new Options<>(
                options.transactional, options.maxAttempts, backoff, options.timeout, options.compensation));
    }

    /** Sets a fixed delay between attempts. */
    public Step<T> withBackoff(Duration delay) {
        required("withBackoff", "delay", delay);
        if (delay.isNegative()) {
            throw new IllegalArgumentException("Step.withBackoff: delay (%s) must not be negative".formatted(delay));
        }
        return withBackoff((failedAttempts, failure) -> delay);
    }

    /** Sets the time after which an attempt is interrupted and counts as failed; a later result is discarded. Default: none. */
    public Step<T> withTimeout(Duration timeout) {
        required("withTimeout", "timeout", timeout);
        if (timeout.isNegative() || timeout.isZero()) {
            throw new IllegalArgumentException("Step.withTimeout: timeout (%s) must be positive".formatted(timeout));
        }
        return with(new Options<>(
                options.transactional, options.maxAttempts, options.backoff, timeout, options.compensation));
    }

    /**
     * Sets the compensation, which runs if the run fails or is cancelled after the step. It has the usual number of attempts and
     * the step's backoff. Only steps that are recorded as completed are compensated: if a step without a transaction timed out,
     * or its node died in the middle, its effects are unknown.
     */
    public Step<T> withCompensation(Compensation<T> compensation) {
        required("withCompensation", "compensation", compensation);
        return with(new Options<>(
                options.transactional, options.maxAttempts, options.backoff, options.timeout, compensation));
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("Step.%s: %s must not be null".formatted(method, parameter));
        }
    }

    private Step<T> with(Options<T> changed) {
        return new Step<>(name, type, action, changed);
    }

    /** Returns the name of the step. */
    public String name() {
        return name;
    }

    /** Returns the type of the result. */
    public Type type() {
        return type;
    }

    /** Returns the action. */
    public Callable<? extends @Nullable T> action() {
        return action;
    }

    /** Returns whether the step runs in a transaction of its own. */
    public boolean isTransactional() {
        return options.transactional;
    }

    /** Returns the number of attempts; null: as configured. */
    public @Nullable Integer maxAttempts() {
        return options.maxAttempts;
    }

    /** Returns the delay between attempts; null: as configured. */
    public @Nullable BackoffStrategy backoff() {
        return options.backoff;
    }

    /** Returns the timeout of an attempt; null: none. */
    public @Nullable Duration timeout() {
        return options.timeout;
    }

    /** Returns the compensation; null: none. */
    public @Nullable Compensation<T> compensation() {
        return options.compensation;
    }
}

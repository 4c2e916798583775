package dev.forge.cluster.workflow;

import dev.forge.cluster.BackoffStrategy;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * A step of a workflow: what it does, and what is done when that fails.
 *
 * @param name together with its place in the method this is how it is known again
 * @param type of what it returns; if the action returns a future, the type of its value
 * @param transactional whether the engine opens a transaction for it, whose last statement remembers it
 * @param attempts how often it is tried; null: {@code forge.cluster.job.max-attempts}
 * @param backoff how long to wait between two attempts; null: {@code forge.cluster.job.backoff}
 * @param timeout after which an attempt is interrupted and has failed, whatever it returns later; null: none
 * @param compensation undoes it, should the run fail or be cancelled later; null: nothing does
 */
public record Step<T>(
        String name,
        Type type,
        Callable<? extends @Nullable T> action,
        boolean transactional,
        @Nullable Integer attempts,
        @Nullable BackoffStrategy backoff,
        @Nullable Duration timeout,
        @Nullable Compensation<T> compensation) {

    public Step {
        if (name.isBlank() || name.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("a step needs a name");
        }
        if (attempts != null && attempts < 1) {
            throw new IllegalArgumentException("step '%s' with %d attempts".formatted(name, attempts));
        }
        if (timeout != null && (timeout.isNegative() || timeout.isZero())) {
            throw new IllegalArgumentException("step '%s' with a timeout of %s".formatted(name, timeout));
        }
    }

    /** Undoes a step. Runs at least once; in a transaction, hence with exactly one effect, if the step does. */
    @FunctionalInterface
    public interface Compensation<T> {

        /**
         * Undoes it.
         *
         * @param result what the step has returned
         */
        void undo(T result) throws Exception;
    }

    /** A step that returns nothing. */
    @FunctionalInterface
    public interface Effect {
        void run() throws Exception;
    }

    /** Runs at least once. */
    public static <T> Step<T> of(String name, Class<T> type, Callable<? extends @Nullable T> action) {
        return new Step<>(name, type, action, false, null, null, null, null);
    }

    /** The same for what no class says: {@code new ParameterizedTypeReference<List<Order>>() {}}. */
    public static <T> Step<T> of(
            String name, ParameterizedTypeReference<T> type, Callable<? extends @Nullable T> action) {
        return new Step<>(name, type.getType(), action, false, null, null, null, null);
    }

    /** In a transaction of its own: what it writes to the cluster's database happens exactly once. */
    public Step<T> inTransaction() {
        return new Step<>(name, type, action, true, attempts, backoff, timeout, compensation);
    }

    /** Tries it that often, with the usual pauses. */
    public Step<T> attempts(int most) {
        return new Step<>(name, type, action, transactional, most, backoff, timeout, compensation);
    }

    /** Tries it that often, with these pauses. */
    public Step<T> retry(int most, BackoffStrategy pauses) {
        return new Step<>(name, type, action, transactional, most, pauses, timeout, compensation);
    }

    /** Tries it that often, with a pause of that length. */
    public Step<T> retry(int most, Duration pause) {
        return retry(most, (failed, failure) -> pause);
    }

    /** Interrupts an attempt that takes longer. */
    public Step<T> timeout(Duration longest) {
        return new Step<>(name, type, action, transactional, attempts, backoff, longest, compensation);
    }

    /**
     * Undoes it if the run fails, or is cancelled, after it. Tried as often as is usual, with the step's own pauses. Only what
     * is remembered as done is undone: of a step that is no transaction, and whose node died in the middle or that has timed
     * out, nobody knows what it did.
     */
    public Step<T> compensate(Compensation<T> undoing) {
        return new Step<>(name, type, action, transactional, attempts, backoff, timeout, undoing);
    }
}

package dev.forge.cluster.job;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What a handler decides about its job, by returning it. Returning commits: on a transactional handler what it wrote
 * stays, whatever the outcome. To undo, throw.
 */
public sealed interface Outcome {

    /** Done. */
    static Outcome complete() {
        return new Completed(null);
    }

    /** Done, with a result that is stored as JSON. */
    static Outcome complete(@Nullable Object result) {
        return new Completed(result);
    }

    /** Not now: come back after that time. Spends no attempt. */
    static Outcome snooze(Duration delay) {
        return new Snoozed(notNegative(delay));
    }

    /** This attempt has failed; the next one, if any is left, comes after that time. */
    static Outcome retryAfter(Duration delay, String reason) {
        return new Retried(notNegative(delay), reason);
    }

    /** Failed for good. */
    static Outcome fail(String reason) {
        return new Failed(reason);
    }

    private static Duration notNegative(Duration delay) {
        if (delay.isNegative()) {
            throw new IllegalArgumentException("a job cannot come back after " + delay);
        }
        return delay;
    }

    /** See {@link #complete(Object)}. */
    record Completed(@Nullable Object result) implements Outcome {}

    /** See {@link #snooze}. */
    record Snoozed(Duration delay) implements Outcome {}

    /** See {@link #retryAfter}. */
    record Retried(Duration delay, String reason) implements Outcome {}

    /** See {@link #fail}. */
    record Failed(String reason) implements Outcome {}
}

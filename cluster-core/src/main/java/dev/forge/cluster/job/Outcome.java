// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The decision of a handler about its job, as its return value. Returning commits: the writes of a transactional handler are kept
 * whatever the outcome is. To roll them back, throw an exception.
 */
public sealed interface Outcome {

    /** Completes the job. */
    static Outcome complete() {
        return new Completed(null);
    }

    /** Completes the job with a result that is stored as JSON. */
    static Outcome complete(@Nullable Object result) {
        return new Completed(result);
    }

    /** Runs the job again after that delay. Does not use up an attempt. */
    static Outcome snooze(Duration delay) {
        return new Snoozed(notNegative("snooze", delay));
    }

    /** Fails the attempt. The next one, if any is left, starts after that delay. */
    static Outcome retryAfter(Duration delay, String reason) {
        required("retryAfter", "reason", reason);
        return new Retried(notNegative("retryAfter", delay), reason);
    }

    /** Fails the job permanently. */
    static Outcome fail(String reason) {
        required("fail", "reason", reason);
        return new Failed(reason);
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("Outcome.%s: %s must not be null".formatted(method, parameter));
        }
    }

    private static Duration notNegative(String method, Duration delay) {
        required(method, "delay", delay);
        if (delay.isNegative()) {
            throw new IllegalArgumentException("Outcome.%s: delay (%s) must not be negative".formatted(method, delay));
        }
        return delay;
    }

    /** The job is completed; {@link #complete(Object)}. */
    record Completed(@Nullable Object result) implements Outcome {}

    /** The job runs again after a delay; {@link #snooze}. */
    record Snoozed(Duration delay) implements Outcome {}

    /** The attempt failed; {@link #retryAfter}. */
    record Retried(Duration delay, String reason) implements Outcome {}

    /** The job has failed permanently; {@link #fail}. */
    record Failed(String reason) implements Outcome {}
}

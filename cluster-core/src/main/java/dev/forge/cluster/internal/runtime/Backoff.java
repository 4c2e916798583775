// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.BackoffStrategy;
import java.time.Duration;

/**
 * The configured backoff between attempts.
 *
 * @param delay the delay before the second attempt
 * @param multiplier the growth of an exponential delay
 */
public record Backoff(Growth growth, Duration delay, double multiplier, Duration maxDelay) implements BackoffStrategy {

    /** How a delay grows. */
    public enum Growth {
        /** Multiplied at each attempt. */
        EXPONENTIAL,
        /** Longer by the same amount at each attempt. */
        LINEAR,
        /** Always the same. */
        FIXED
    }

    @Override
    public Duration delay(int failedAttempts, Throwable failure) {
        return delay(failedAttempts);
    }

    public Duration delay(int failedAttempts) {
        double factor = switch (growth) {
            case EXPONENTIAL -> Math.pow(multiplier, failedAttempts - 1.0);
            case LINEAR -> failedAttempts;
            case FIXED -> 1;
        };
        double millis = Math.min(delay.toMillis() * factor, (double) maxDelay.toMillis());
        return Duration.ofMillis((long) millis);
    }
}

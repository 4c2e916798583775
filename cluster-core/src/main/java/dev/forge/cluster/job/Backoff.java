// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The delay between the attempts of a job or a cron run. Attributes that are not set use {@code forge.cluster.job.backoff.*}.
 * String attributes support {@code ${...}} placeholders.
 */
@Target({})
@Retention(RetentionPolicy.RUNTIME)
public @interface Backoff {

    /** How the delay grows. */
    Strategy strategy() default Strategy.DEFAULT;

    /** The delay before the second attempt, for example {@code 1s}. */
    String delay() default "";

    /** The growth factor of an exponential delay, at least 1. Default (0): as configured. */
    double multiplier() default 0;

    /** {@link #multiplier} as a text that may contain a placeholder. */
    String multiplierString() default "";

    /** The longest delay, for example {@code 10m}. */
    String maxDelay() default "";

    /** The share of the delay that is random, between 0 and 1. Default (a negative value): as configured. */
    double jitter() default -1;

    /** {@link #jitter} as a text that may contain a placeholder. */
    String jitterString() default "";

    /** How a delay grows. */
    enum Strategy {
        /** As configured by {@code forge.cluster.job.backoff.strategy}. */
        DEFAULT,
        /** Multiplied after each attempt. */
        EXPONENTIAL,
        /** Increased by the same amount after each attempt. */
        LINEAR,
        /** Always the same. */
        FIXED
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.job.Backoff;
import dev.forge.cluster.job.JobPriority;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Runs a bean method on a schedule, once per slot in the whole cluster. The method takes a {@link CronContext} or nothing.
 *
 * <pre>{@code
 * @ClusterCron("0 * * * *")
 * void hourlyReport(CronContext cron) { ... }
 *
 * @ClusterCron(every = "30s", target = CronTarget.ANY_WORKER)
 * void pollPartner() { ... }
 * }</pre>
 *
 * <p>A run is a job: it is recovered if its node dies, retried if it throws, and on a {@code @Transactional} method it has
 * exactly-once effects. The table {@code forge_cron_runs} records the outcome of each slot.
 *
 * <p>String attributes support {@code ${...}} placeholders. Attributes that are not set use {@code forge.cluster.cron.*} and
 * {@code forge.cluster.job.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterCron {

    /**
     * The cron expression: five fields (minute, hour, day of month, month, day of week), six with leading seconds, or a macro
     * such as {@code @hourly}; {@code -} disables the cron.
     */
    String value() default "";

    /** An interval that replaces the expression, for example {@code 30s}: slots are the multiples of it since 1970. */
    String every() default "";

    /** The time zone of the expression. A local time that does not exist is skipped, a repeated one fires once. */
    String zone() default "";

    /** The name, unique in the cluster among crons and jobs. Default: the method's name in kebab case. */
    String name() default "";

    /** Former names: runs that were fired under them run here, too. */
    String[] aliases() default {};

    /** Which node runs the cron. */
    CronTarget target() default CronTarget.LEADER;

    /** The capability that a worker needs to run the cron, with {@link CronTarget#ANY_WORKER}. */
    String capability() default "";

    /** What happens to slots that passed while no node could fire them. */
    Misfire misfire() default Misfire.DEFAULT;

    /**
     * The number of slots that {@link Misfire#CATCH_UP} runs at most; older ones are missed. Default (0): {@code
     * forge.cluster.cron.catch-up-limit}.
     */
    int catchUpLimit() default 0;

    /** {@link #catchUpLimit} as a text that may contain a placeholder. */
    String catchUpLimitString() default "";

    /** What happens to a slot while the previous run has not ended. */
    Overlap overlap() default Overlap.SKIP;

    /** The longest random delay of a run after its slot, which keeps crons from starting all at once. */
    String jitter() default "";

    /** The priority of runs. */
    JobPriority priority() default JobPriority.NORMAL;

    /** {@link #priority} as a text that may contain a placeholder. */
    String priorityString() default "";

    /** The number of attempts before a run has failed. Default (0): {@code forge.cluster.job.max-attempts}. */
    int maxAttempts() default 0;

    /** {@link #maxAttempts} as a text that may contain a placeholder. */
    String maxAttemptsString() default "";

    /** The delay between attempts. */
    Backoff backoff() default @Backoff;

    /** Exceptions that fail the run without another attempt. */
    Class<? extends Throwable>[] noRetryFor() default {};

    /** The time after which an attempt is interrupted and counts as failed. A later result is discarded. */
    String timeout() default "";

    /** How long a finished run is kept, for example {@code 30d}; {@code 0s} deletes it at completion. */
    String retention() default "";
}

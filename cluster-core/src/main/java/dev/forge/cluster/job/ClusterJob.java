// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.job.operations.JobOperations;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method the handler of a job. The method takes at most one payload, of any type that maps to JSON, and optionally a
 * {@link JobContext}. Its return value is stored as the result, unless it is an {@link Outcome}, which decides what happens next.
 *
 * <p>A {@code @Transactional} method has exactly-once effects: the last statement of its transaction completes the job. If the
 * method returns, both commit; if it throws, both roll back. Other methods run at least once. So do methods whose annotation asks
 * for another transaction than that ({@code REQUIRES_NEW}, {@code NOT_SUPPORTED} and so on); the start-up log says so.
 *
 * <p>A handler can return a {@code CompletionStage}, a {@code Future} or a reactive type: the job ends with it, and its value is
 * the result. A {@code @Transactional} handler cannot do so, and no handler can be {@code @Async}: both fail the start-up.
 *
 * <pre>{@code
 * @ClusterJob(name = "process-order", maxAttempts = 5)
 * @Transactional
 * void process(ProcessOrder order) { ... }
 * }</pre>
 *
 * <p>With {@link #batchSize} the method takes the payloads of many jobs at a time, as a {@code List}, and optionally a {@code
 * List<JobContext>} in the same order. It runs in one transaction if it is {@code @Transactional}. It returns nothing, or a {@code
 * List} with a result or an {@link Outcome} for each job. If it throws, the jobs run one by one, so that a bad one does not fail the
 * others; only these attempts count.
 *
 * <pre>{@code
 * @ClusterJob(batchSize = 100, batchWait = "20ms")
 * @Transactional
 * void index(List<Document> documents) { ... }
 * }</pre>
 *
 * <p>String attributes support {@code ${...}} placeholders. Attributes that are not set use {@code forge.cluster.job.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterJob {

    /** The name, unique in the cluster. Default: the method's name in kebab case; {@code importXMLFile} becomes {@code import-xml-file}. */
    String name() default "";

    /** Former names: jobs that were enqueued under them run here, too. */
    String[] aliases() default {};

    /** The capability ({@code forge.cluster.node.capabilities}) that a node needs to run the job. Default: none. */
    String capability() default "";

    /** The priority of jobs that are enqueued without one. */
    JobPriority priority() default JobPriority.NORMAL;

    /** {@link #priority} as a text that may contain a placeholder. */
    String priorityString() default "";

    /** The number of attempts before the job has failed. Default (0): {@code forge.cluster.job.max-attempts}. */
    int maxAttempts() default 0;

    /** {@link #maxAttempts} as a text that may contain a placeholder. */
    String maxAttemptsString() default "";

    /** The delay between attempts. */
    Backoff backoff() default @Backoff;

    /** Exceptions that fail the job without another attempt. */
    Class<? extends Throwable>[] noRetryFor() default {};

    /**
     * The time after which an attempt is interrupted and counts as failed, for example {@code 30s}. A later result is discarded.
     * A handler that ignores the interrupt keeps its slot, and the next attempt waits until it ends.
     */
    String timeout() default "";

    /** The largest number of jobs that one call takes; 1: the method takes one job. At most 1,000. */
    int batchSize() default 1;

    /** {@link #batchSize} as a text that may contain a placeholder. */
    String batchSizeString() default "";

    /**
     * How long a call waits for more jobs while it has fewer than {@link #batchSize}, for example {@code 20ms}; at most {@code 10s}.
     * Default: it takes the jobs that are there.
     */
    String batchWait() default "";

    /**
     * The group of a job, as a SpEL expression over {@code #payload}: {@code #payload.customer}. {@link JobOptions#withGroup}
     * overrides it; null: no group. The groups of jobs of one name take turns.
     */
    String group() default "";

    /** How many of these jobs run at the same time in the cluster. Default (0): any number. {@link JobOperations#setLimits} changes it at run time. */
    int concurrency() default 0;

    /** {@link #concurrency} as a text that may contain a placeholder. */
    String concurrencyString() default "";

    /**
     * How many jobs of one group run at the same time in the cluster. Default (0): any number. {@link JobOperations#setLimits} changes it at run
     * time.
     */
    int groupConcurrency() default 0;

    /** {@link #groupConcurrency} as a text that may contain a placeholder. */
    String groupConcurrencyString() default "";

    /**
     * How often jobs of one group start in the cluster, spread evenly: {@code 10/s}, {@code 100/m}, {@code 1/15m}. Default: at any
     * rate. {@link JobOperations#setLimits} changes it at run time.
     */
    String groupRate() default "";

    /** How many jobs of one group start at once after a quiet time, if there is a {@link #groupRate}. */
    int groupBurst() default 1;

    /** {@link #groupBurst} as a text that may contain a placeholder. */
    String groupBurstString() default "";

    /**
     * Whether the jobs of a group run one after the other, in the order in which they were enqueued. A job that waits for its next
     * attempt holds up its group until it succeeds or has failed for good.
     */
    boolean ordered() default false;

    /** How long a finished job is kept, for example {@code 30d}; {@code 0s} deletes it at completion. */
    String retention() default "";
}

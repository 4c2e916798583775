package dev.forge.cluster.job;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method the handler of a job. It takes at most one payload, of any type that maps to JSON, and may take a
 * {@link JobContext}; what it returns is stored as the result, unless it is an {@link Outcome}, which decides what
 * happens next.
 *
 * <p>Return commits, throw rolls back: on a {@code @Transactional} method the job is completed by the last statement of
 * that very transaction, so that its effects happen exactly once. Elsewhere a job runs at least once; so it does where the
 * annotation asks for another transaction than that ({@code REQUIRES_NEW}, {@code NOT_SUPPORTED}...), which the log says at
 * the start.
 *
 * <p>A handler may return a {@code CompletionStage}, a {@code Future} or a reactive type: the job ends with it, and its value
 * is the result. A {@code @Transactional} handler may not, and no handler may be {@code @Async}: both fail the start.
 *
 * <pre>{@code
 * @ClusterJob(name = "process-order", maxAttempts = "5")
 * @Transactional
 * void process(ProcessOrder order) { ... }
 * }</pre>
 *
 * <p>Every text may hold placeholders, {@code "${orders.max-attempts}"}. What is left empty is taken from
 * {@code forge.cluster.job.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterJob {

    /**
     * Unique in the cluster. By default the method's name in kebab case: {@code importXMLFile} is {@code import-xml-file}.
     */
    String name() default "";

    /** Former names: jobs that were enqueued under them run here too. */
    String[] aliases() default {};

    /** What a node must offer ({@code forge.cluster.node.capabilities}) to run it; by default nothing. */
    String capability() default "";

    /** A {@link JobPriority}. */
    String priority() default "";

    /** How often it is tried before it has failed. */
    String maxAttempts() default "";

    /** How long a failed attempt waits for the next one. */
    Backoff backoff() default @Backoff;

    /** Exceptions after which trying again is of no use: the job fails at once. */
    Class<? extends Throwable>[] excluded() default {};

    /**
     * How long an attempt may take before it is interrupted and counts as failed; for example {@code 30s}. A result that comes
     * later is discarded. A handler that ignores the interrupt keeps its slot; the next attempt waits for its end.
     */
    String timeout() default "";

    /** How long it is kept once it is finished; for example {@code 30d}, {@code 0s} deletes it at completion. */
    String retention() default "";

    /** See {@code forge.cluster.job.backoff}. */
    @Target({})
    @Retention(RetentionPolicy.RUNTIME)
    @interface Backoff {

        /** exponential, linear or fixed. */
        String strategy() default "";

        /** Before the second attempt. */
        String delay() default "";

        /** Growth of an exponential delay. */
        String multiplier() default "";

        /** The longest delay. */
        String maxDelay() default "";

        /** Share of the delay that is left to chance. */
        String jitter() default "";
    }
}

package dev.forge.cluster.cron;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Runs a bean method on a schedule, once for every slot, however many nodes there are. The method takes a {@link
 * CronContext} or nothing.
 *
 * <pre>{@code
 * @ClusterCron("0 * * * *")
 * void hourlyReport(CronContext cron) { ... }
 *
 * @ClusterCron(every = "30s", target = CronTarget.ANY_WORKER)
 * void pollPartner() { ... }
 * }</pre>
 *
 * <p>A run is a job: it is recovered when its node dies, tried again when it throws, and on a {@code @Transactional} method
 * its effects happen exactly once. What became of each slot is in the table {@code forge_cron_runs}.
 *
 * <p>Every text may hold placeholders. What is left empty is taken from {@code forge.cluster.cron.*} and
 * {@code forge.cluster.job.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterCron {

    /**
     * When to run: five fields (minute, hour, day of month, month, day of week), six with seconds in front, or a macro such
     * as {@code @hourly}; {@code -} for never.
     */
    String value() default "";

    /** Instead of an expression: at every multiple of that time, counted from 1970; for example {@code 30s}. */
    String every() default "";

    /** The time zone of the expression. A local time that does not exist is skipped, a repeated one fires once. */
    String zone() default "";

    /** Unique in the cluster, among jobs too. By default the method's name in kebab case. */
    String name() default "";

    /** Who runs it. */
    CronTarget target() default CronTarget.LEADER;

    /** What a worker must offer to run it, with {@link CronTarget#ANY_WORKER}. */
    String capability() default "";

    /** What becomes of slots that passed while nobody could fire them. */
    Misfire misfire() default Misfire.DEFAULT;

    /** How many such slots {@link Misfire#CATCH_UP} runs at most; the older ones are missed. */
    String catchUpLimit() default "";

    /** What becomes of a slot whose predecessor still runs. */
    Overlap overlap() default Overlap.SKIP;

    /** A run begins by chance up to that much after its slot, so that not everything begins on the full minute. */
    String jitter() default "";

    /** How often a run is tried before it has failed. */
    String maxAttempts() default "";

    /** How long an attempt may take before it is interrupted and counts as failed; a result that comes later is discarded. */
    String timeout() default "";
}

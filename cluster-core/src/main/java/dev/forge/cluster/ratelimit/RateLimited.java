package dev.forge.cluster.ratelimit;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Admits calls of a bean's method up to a limit; on a class, of each of its public methods, each with buckets of its own.
 * A call that is denied throws {@link RateLimitExceededException} before the method, or its transaction, begins. From a
 * controller that becomes {@code 429 Too Many Requests} with {@code Retry-After} and the {@code RateLimit} headers, which
 * answers of admitted calls have too.
 *
 * <pre>{@code
 * @GetMapping("/quote")
 * @RateLimited(key = RateLimitKey.IP, requests = "100", per = "1m")
 * Quote quote() { ... }
 * }</pre>
 *
 * <p>Like every annotation that works by a proxy, it does not see calls of a bean to itself; private, static and final
 * methods are refused at start-up. Every text may hold placeholders, {@code "${quotes.limit}"}.
 */
@Documented
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface RateLimited {

    /**
     * Of the limit. By default the class and the method: {@code quote-controller.quote}. Methods that share a name share
     * buckets, and must then have the same limit.
     */
    String name() default "";

    /** For whom there is a bucket. */
    RateLimitKey key() default RateLimitKey.GLOBAL;

    /**
     * Instead of {@link #key}: a SpEL expression over the arguments, such as {@code #order.customer}, {@code #tenant} or
     * {@code @tenants.current()}. There is a bucket for each value.
     */
    String expression() default "";

    /** How many calls are admitted in that time. */
    String requests();

    /** That time: {@code 1s}, {@code 1m}, {@code 24h}. */
    String per();

    /** How many of them at once; by default all. */
    String burst() default "";
}

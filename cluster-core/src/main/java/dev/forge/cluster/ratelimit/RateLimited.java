// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Limits the calls of a bean's method. On a class it applies to each public method, each with its own buckets. A denied call
 * throws {@link RateLimitExceededException} before the method or its transaction begins. From a controller that becomes {@code
 * 429 Too Many Requests} with {@code Retry-After} and the {@code RateLimit} headers, which responses of admitted calls carry as
 * well.
 *
 * <pre>{@code
 * @GetMapping("/quote")
 * @RateLimited(key = RateLimitKey.IP, requests = 100, per = "1m")
 * Quote quote() { ... }
 * }</pre>
 *
 * <p>As with every annotation that works through a proxy, calls of a bean to itself are not limited. Private, static and final
 * methods are rejected at start-up. String attributes support {@code ${...}} placeholders.
 */
@Documented
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface RateLimited {

    /**
     * The name of the limit. Default: class and method, {@code quote-controller.quote}. Methods with the same name share buckets
     * and must have the same limit.
     */
    String name() default "";

    /** Which callers share a bucket. */
    RateLimitKey key() default RateLimitKey.GLOBAL;

    /**
     * A SpEL expression over the arguments that replaces {@link #key}, such as {@code #order.customer}, {@code #tenant} or {@code
     * @tenants.current()}. Each value has its own bucket.
     */
    String expression() default "";

    /** The number of calls admitted per period. Required here or as {@link #requestsString}. */
    long requests() default 0;

    /** {@link #requests} as a text that may contain a placeholder. */
    String requestsString() default "";

    /** The period: {@code 1s}, {@code 1m}, {@code 24h}. */
    String per();

    /** The number of calls admitted at once. Default: {@link #requests}. */
    long burst() default 0;

    /** {@link #burst} as a text that may contain a placeholder. */
    String burstString() default "";
}

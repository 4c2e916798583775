// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.job.JobContext;
import org.jspecify.annotations.Nullable;

/**
 * Wraps the handlers of jobs, for example to set a tenant or a security context. Beans of this type are called in the order of
 * {@code @Order}, the first one outermost, on the handler's thread and inside its transaction.
 *
 * <pre>{@code
 * @Bean
 * JobInterceptor tenant() {
 *     return (job, handler) -> Tenants.callAs(job.metadata().get("tenant"), handler::proceed);
 * }
 * }</pre>
 *
 * <p>An exception counts as an exception of the handler. Runs of workflows and crons are jobs, too.
 */
@FunctionalInterface
public interface JobInterceptor {

    /**
     * Calls the handler, or not.
     *
     * @return the result of the job, usually that of {@link Handler#proceed}
     */
    @Nullable
    Object intercept(JobContext job, Handler handler) throws Throwable;

    /** The next interceptor, or the handler. */
    @FunctionalInterface
    interface Handler {

        /** Calls the next interceptor, or the handler. Must be called at most once. */
        @Nullable
        Object proceed() throws Throwable;
    }
}

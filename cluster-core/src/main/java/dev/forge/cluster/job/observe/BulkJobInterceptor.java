// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.observe;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.Outcome;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A {@link JobInterceptor} that can also wrap one call for many jobs; see {@link ClusterJob#batchSize}. If there is an interceptor
 * that cannot, such handlers get their jobs one by one: a tenant or a user of one job must not be that of the others.
 *
 * <pre>{@code
 * public Object interceptAll(List<JobContext> jobs, Handler handler) throws Throwable {
 *     Set<String> tenants = jobs.stream().map(job -> job.metadata().get("tenant")).collect(toSet());
 *     if (tenants.size() > 1) {
 *         throw new IllegalStateException("jobs of several tenants");    // the jobs run one by one
 *     }
 *     return Tenants.callAs(tenants.iterator().next(), handler::proceed);
 * }
 * }</pre>
 */
public interface BulkJobInterceptor extends JobInterceptor {

    /**
     * Calls the handler for several jobs, or not. After an exception the jobs run one by one through {@link #intercept}.
     *
     * @return the results of the jobs, usually what {@link Handler#proceed} returned: null, or a list with a result or an {@link
     *     Outcome} for each job
     */
    @Nullable
    Object interceptAll(List<JobContext> jobs, Handler handler) throws Throwable;
}

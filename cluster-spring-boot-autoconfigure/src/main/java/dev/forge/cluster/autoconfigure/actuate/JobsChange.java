// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.job.BulkOptions;
import dev.forge.cluster.job.JobFilter;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * The parameters of an operation on all jobs that match a query.
 *
 * @param everyJob whether an operation without a condition is meant
 * @param preview whether jobs are only counted
 * @param at the new time of jobs that are rescheduled
 * @param limit the largest number of jobs to change
 * @param after continues an operation
 */
record JobsChange(
        JobQuery query,
        boolean everyJob,
        boolean preview,
        @Nullable String at,
        @Nullable Integer limit,
        @Nullable String after,
        SecurityContext user) {

    JobFilter filter() {
        return everyJob && query.isEmpty() ? JobFilter.everyJob() : query.filter();
    }

    BulkOptions options() {
        BulkOptions options = BulkOptions.defaults().withCursor(after);
        if (limit != null) {
            options = options.withMaximum(limit);
        }
        return preview ? options.withPreview() : options;
    }
}

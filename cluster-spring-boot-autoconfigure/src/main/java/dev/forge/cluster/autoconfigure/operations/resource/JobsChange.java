// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Instant;
import java.util.Set;

/** The parameters of an operation on all jobs that match a query. */
record JobsChange(OperationRequest request) {

    /**
     * Those of the query; whether an operation without a condition is meant, whether jobs are only counted, the new time of jobs that
     * are rescheduled, the largest number of jobs to change, and the cursor that continues an operation.
     */
    static final Set<String> PARAMETERS =
            ResourceParameters.together(JobQuery.PARAMETERS, "everyJob", "preview", "at", "limit", "after");

    JobFilter filter() {
        return new JobQuery(request).filter();
    }

    boolean preview() {
        return request.flag("preview");
    }

    Instant at() {
        Instant at = request.time("at");
        if (at == null) {
            throw new InvalidOperationException("State 'rescheduled' needs the parameter 'at'");
        }
        return at;
    }

    BulkOptions options() {
        BulkOptions options = BulkOptions.defaults().withCursor(request.text("after"));
        Integer limit = request.integer("limit");
        if (limit != null) {
            options = options.withMaximum(limit);
        }
        if (request.flag("everyJob")) {
            options = options.withEverything();
        }
        return preview() ? options.withPreview() : options;
    }
}

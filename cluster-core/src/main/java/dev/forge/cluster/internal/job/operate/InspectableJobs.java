// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.Page;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobFilter;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** {@link Jobs} whose payloads a test can read with the types of the application. */
public interface InspectableJobs extends Jobs {

    /** Returns the names under which jobs with payloads of that class may have been enqueued. */
    Set<String> namesOf(Class<?> payload);

    /**
     * Rejects a name of which it is not known whether jobs can have it.
     *
     * @throws dev.forge.cluster.job.JobRejectedException no handler and no job has that name, or no job may have it
     */
    void requireKnown(String name);

    /** Returns a page of jobs, as {@link dev.forge.cluster.job.operations.JobOperations#search} does. */
    Page<JobInfo> search(JobFilter filter, int limit, @Nullable String cursor);

    /** Reads the JSON of a payload. */
    <T> T read(String json, Class<T> type);

    /** Returns a value as the JSON that would be stored. */
    String write(@Nullable Object value);
}

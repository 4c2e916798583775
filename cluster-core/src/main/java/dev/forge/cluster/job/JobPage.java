// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A page of the jobs that match a filter, as {@link JobOperations#search} returns it.
 *
 * @param jobs the jobs, without payloads, results, errors and attempts
 * @param examined how many jobs the search looked at
 * @param cutOff whether the search ended at its bound, before it had found as many jobs as asked for or looked at all of them
 * @param next the cursor with which the next call continues; null: there are no further jobs
 */
public record JobPage(
        List<JobInfo> jobs,
        long examined,
        boolean cutOff,
        @Nullable String next) {

    /** Copies the list. */
    public JobPage {
        jobs = List.copyOf(jobs);
    }
}

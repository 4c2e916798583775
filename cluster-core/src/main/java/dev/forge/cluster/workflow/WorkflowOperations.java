// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.Page;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Searches and exports runs of workflows for the operators of the cluster. Applications start and control single runs with {@link
 * Workflows}. A null argument throws {@link IllegalArgumentException} unless the parameter allows null.
 */
public interface WorkflowOperations {

    /** Returns the first page of a search; see {@link #search(WorkflowFilter, int, String)}. */
    default Page<WorkflowInfo> search(WorkflowFilter filter, int limit) {
        return search(filter, limit, null);
    }

    /**
     * Searches runs page by page, newest first, without input, result, error, reason, progress and steps. A call looks at 10,000 runs
     * at most, so a page may have fewer runs than there are: its cursor continues the search. Runs in flight that have the status of
     * the filter are found at once, however many others are newer, if there are no more than 10,000 of them.
     *
     * @param limit the largest number of runs in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page of the same filter; null: begins
     * @throws IllegalArgumentException if the cursor does not belong to the filter
     */
    Page<WorkflowInfo> search(WorkflowFilter filter, int limit, @Nullable String cursor);

    /**
     * Exports the recorded history of a run, for a replay against other code: {@code operations.export(run)} with {@link
     * WorkflowExport#masked()} for a file that leaves production, and {@link WorkflowExport#json()} for its text. One statement
     * reads it, so the history of a run in flight is that of one moment.
     *
     * @return the history with all values; empty if the run is unknown
     * @throws WorkflowRejectedException if the history has more than 10,000 steps, or more than 8 MB of input, results and errors
     */
    Optional<WorkflowExport> export(UUID run);
}

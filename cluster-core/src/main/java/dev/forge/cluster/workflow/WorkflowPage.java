// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A page of runs, as {@link Workflows#search} returns it.
 *
 * @param runs the runs, newest first, without input, result, error, reason, progress and steps
 * @param examined how many runs the search looked at
 * @param cutOff whether the search ended at its bound, before it had found as many runs as asked for or looked at all of them
 * @param next the parameter {@code after} with which the next call continues; null: there are no further runs
 */
public record WorkflowPage(
        List<WorkflowInfo> runs,
        long examined,
        boolean cutOff,
        @Nullable UUID next) {

    /** Copies the list. */
    public WorkflowPage {
        runs = List.copyOf(runs);
    }
}

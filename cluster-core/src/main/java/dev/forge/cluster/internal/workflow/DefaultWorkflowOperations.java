// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowOperations;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** {@link WorkflowOperations} on {@code forge_workflow_runs}. */
public final class DefaultWorkflowOperations implements WorkflowOperations {

    private static final int MOST_LISTED = 1_000;

    private final WorkflowReports reports;

    public DefaultWorkflowOperations(WorkflowEngine engine) {
        this.reports = engine.reports();
    }

    @Override
    public Page<WorkflowInfo> search(WorkflowFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("WorkflowOperations.search", "filter", filter);
        Arguments.limit("WorkflowOperations.search", limit, MOST_LISTED);
        requireStorable("workflow", filter.name());
        requireStorable("version", filter.version());
        return reports.search("WorkflowOperations.search", filter, limit, cursor);
    }

    private static void requireStorable(String what, @Nullable String text) {
        if (text != null) {
            Names.require(what, text);
        }
    }

    @Override
    public Optional<WorkflowExport> export(UUID run) {
        Arguments.required("WorkflowOperations.export", "run", run);
        return reports.export(run);
    }
}

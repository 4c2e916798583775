// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The versions of workflows that this node has code for, and the choice of the version of a new run. */
final class InstalledVersions {

    private final WorkflowKeeping keeping;
    private final BooleanSupplier isWorker;
    private final Map<String, WorkflowHandler> handlersByJobName = new TreeMap<>();

    /** @param isWorker whether this node executes jobs */
    InstalledVersions(WorkflowKeeping keeping, BooleanSupplier isWorker) {
        this.keeping = keeping;
        this.isWorker = isWorker;
    }

    /**
     * Adds a version, before the node starts.
     *
     * @throws ClusterStartupException if another method declares the same version
     */
    void add(WorkflowHandler handler) {
        WorkflowHandler other = handlersByJobName.putIfAbsent(handler.version().jobName(), handler);
        if (other != null) {
            throw new ClusterStartupException(
                    "Two methods are version '%s' of workflow '%s': %s and %s"
                            .formatted(
                                    handler.version().version(),
                                    handler.version().workflow(),
                                    other.description(),
                                    handler.description()),
                    "Give one of them another name or version: @ClusterWorkflow(name = ..., version = ...).");
        }
    }

    @Nullable
    WorkflowHandler find(WorkflowVersion version) {
        return handlersByJobName.get(version.jobName());
    }

    Set<WorkflowVersion> all() {
        return handlersByJobName.values().stream().map(WorkflowHandler::version).collect(Collectors.toSet());
    }

    /** Returns the versions as messages print them, sorted. */
    Set<String> labels() {
        return labels(all());
    }

    private static Set<String> labels(Collection<WorkflowVersion> versions) {
        return versions.stream().map(WorkflowVersion::label).collect(Collectors.toCollection(TreeSet::new));
    }

    /** Returns the names of the jobs of deprecated versions, one per line. */
    String deprecatedJobNames() {
        return handlersByJobName.values().stream()
                .filter(WorkflowHandler::deprecated)
                .map(handler -> handler.version().jobName())
                .collect(Collectors.joining("\n"));
    }

    /**
     * Returns the version of new runs of a workflow: the newest one that is not deprecated. The versions of this node come first
     * if it is a worker, then those of live workers, then those of this node, then those that any node has ever had: the run
     * waits for such a node, which may be restarting.
     */
    WorkflowVersion newest(String workflow) {
        Optional<WorkflowVersion> own =
                newest(all(), version -> version.workflow().equals(workflow) && !isDeprecatedHere(version));
        if (own.isPresent() && isWorker.getAsBoolean()) {
            return own.get();
        }
        Map<WorkflowVersion, Boolean> live = keeping.versionsOfLiveWorkers();
        return newest(
                        live.keySet(),
                        version -> version.workflow().equals(workflow)
                                && Boolean.FALSE.equals(live.get(version))
                                && !isDeprecatedHere(version))
                .or(() -> own)
                .or(() -> newest(
                        keeping.versionsEverSeen(workflow),
                        version -> !live.containsKey(version) && !isDeprecatedHere(version)))
                .orElseThrow(() -> new WorkflowRejectedException(
                        "Unknown workflow '%s': no node has ever had a version of it that is not deprecated. This node has %s, live workers have %s."
                                .formatted(workflow, labels(), labels(live.keySet()))));
    }

    private boolean isDeprecatedHere(WorkflowVersion version) {
        WorkflowHandler handler = find(version);
        return handler != null && handler.deprecated();
    }

    private static Optional<WorkflowVersion> newest(
            Collection<WorkflowVersion> versions, Predicate<WorkflowVersion> condition) {
        return versions.stream().filter(condition).max(WorkflowVersion.OLDEST_FIRST);
    }
}

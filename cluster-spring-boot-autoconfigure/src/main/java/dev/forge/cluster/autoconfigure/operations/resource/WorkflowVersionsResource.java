// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.internal.workflow.store.WorkflowKeeping;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The resource {@code workflow-versions}: versions with runs in flight, and whether live nodes have them. */
final class WorkflowVersionsResource extends Resource {

    private static final int MOST_VERSIONS = 1_000;

    private final WorkflowReports runs;
    private final WorkflowKeeping versions;

    WorkflowVersionsResource(WorkflowReports runs, WorkflowKeeping versions) {
        super("workflow-versions", ResourceParameters.ofList());
        this.runs = runs;
        this.versions = versions;
    }

    private record Counts(long inFlight, long blocked, long mismatched) {

        Counts plus(Counts other) {
            return new Counts(inFlight + other.inFlight, blocked + other.blocked, mismatched + other.mismatched);
        }

        static Counts of(WorkflowReports.Count count) {
            long runs = count.runs();
            return switch (count.status()) {
                case BLOCKED_MISSING_VERSION -> new Counts(runs, runs, 0);
                case BLOCKED_SIGNATURE_MISMATCH -> new Counts(runs, runs, runs);
                default -> new Counts(runs, 0, 0);
            };
        }
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        Map<WorkflowVersion, Counts> counts =
                new TreeMap<>(Comparator.comparing(WorkflowVersion::workflow).thenComparing(WorkflowVersion::version));
        runs.unfinished().forEach(count -> counts.merge(count.version(), Counts.of(count), Counts::plus));
        Set<WorkflowVersion> live =
                counts.isEmpty() ? Set.of() : versions.versionsOfLiveWorkers().keySet();
        List<JsonObject> found = counts.entrySet().stream()
                .limit(MOST_VERSIONS)
                .map(entry -> new JsonObject()
                        .with("name", entry.getKey().workflow())
                        .with("version", entry.getKey().version())
                        .with("inFlight", entry.getValue().inFlight())
                        .with("blocked", entry.getValue().blocked())
                        .with("mismatched", entry.getValue().mismatched())
                        .with("stranded", !live.contains(entry.getKey())))
                .toList();
        return request.result(new JsonObject().with("versions", found).with("cutOff", counts.size() > MOST_VERSIONS));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.job.operations.JobSummary;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The resource {@code job-names}: what the jobs of each name do, did lately, and are limited to. */
final class JobNamesResource extends Resource {

    private static final int MOST_NAMES = 1_000;
    private static final Duration DEFAULT_RANGE = Duration.ofHours(1);

    /** Of the demand of a name, which has further members. */
    private static final List<String> WAITING =
            List.of("executor", "due", "dueIsExact", "oldestDueSeconds", "running", "slots");

    /** The demand of names that have none. */
    private static final JsonObject NOTHING_WAITS = new JsonObject()
            .with("due", 0)
            .with("dueIsExact", true)
            .with("oldestDueSeconds", 0.0)
            .with("running", 0)
            .with("slots", 0);

    private final JobOperations operations;
    private final DemandResource demand;
    private final LimitsResource limits;
    private final ValueSanitizer values;

    JobNamesResource(JobOperations operations, DemandResource demand, LimitsResource limits, ValueSanitizer values) {
        super("job-names", ResourceParameters.ofList("range"));
        this.operations = operations;
        this.demand = demand;
        this.limits = limits;
        this.values = values;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        Duration range = request.duration("range", DEFAULT_RANGE);
        Sanitized shown = values.shownTo(request.caller());
        Map<String, JsonObject> waiting = demand.read().names();
        Map<String, JobSummary> summaries = summaries(range);
        Map<String, JsonObject> limited = limits.first(shown);
        var names = new TreeSet<>(waiting.keySet());
        names.addAll(summaries.keySet());
        names.addAll(limited.keySet());
        // Not those of the demand, which is some seconds old: whoever pauses a name wants to see that it is paused. And
        // a name without a handler must be found to be resumed.
        Set<String> paused = operations.paused();
        names.addAll(paused);
        List<JsonObject> objects = names.stream()
                // Anybody who may enqueue can make up names: they must not push out the others.
                .sorted(Comparator.comparing((String name) -> !isHandled(waiting.get(name)))
                        .thenComparing(Comparator.naturalOrder()))
                .limit(MOST_NAMES)
                .sorted()
                .map(name -> new JsonObject()
                        .with("name", name)
                        .with("paused", paused.contains(name))
                        .withAll(waiting(waiting.getOrDefault(name, NOTHING_WAITS)))
                        .withAll(did(summaries.getOrDefault(name, nothing(name, range)), shown))
                        .with("limits", limited.get(name)))
                .toList();
        return request.result(new JsonObject()
                .with("rangeSeconds", range.toSeconds())
                .with("names", objects)
                .with("cutOff", names.size() > MOST_NAMES));
    }

    private Map<String, JobSummary> summaries(Duration range) {
        try {
            return operations.summaries(range).stream()
                    .collect(Collectors.toMap(JobSummary::name, Function.identity(), (first, second) -> first));
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    private static JobSummary nothing(String name, Duration range) {
        return new JobSummary(name, range, 0, 0, 0, 0, null, null);
    }

    private static boolean isHandled(@Nullable JsonObject waiting) {
        return waiting != null && !Integer.valueOf(0).equals(waiting.get("slots"));
    }

    private static JsonObject waiting(JsonObject demand) {
        var object = new JsonObject();
        WAITING.forEach(member -> object.with(member, demand.get(member)));
        return object;
    }

    private static JsonObject did(JobSummary did, Sanitized shown) {
        return new JsonObject()
                .with("completed", did.completed())
                .with("failed", did.failed())
                .with("retried", did.retried())
                .with("recovered", did.recovered())
                .with("completedPerMinute", did.completedPerMinute())
                .with("failureRatio", did.failureRatio())
                .with("waiting", did.waiting() == null ? null : shown.object(did.waiting()))
                .with("duration", did.running() == null ? null : shown.object(did.running()));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.handler.RateText;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.job.operate.JobLimitReports.NameLimits;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.ratelimit.RateLimit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The resource {@code limits}: shows the limits of jobs, overrides and resets them, and sets weights of groups. */
final class LimitsResource extends Resource {

    private static final int DEFAULT_LIMIT = 1_000;
    private static final int DEFAULT_GROUPS = 50;

    /** The parameters that no other resource has. */
    private static final Set<String> LIMITS =
            Set.of("concurrency", "groupConcurrency", "groupRate", "groupBurst", "weight");

    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("after", "limit")
            .withEntry("limit")
            .withChange(ResourceParameters.together(LIMITS, "group").toArray(String[]::new));

    private final JobOperations operations;
    private final JobLimitReports reports;
    private final JobHandlers handlers;
    private final ValueSanitizer values;

    LimitsResource(JobOperations operations, JobLimitReports reports, JobHandlers handlers, ValueSanitizer values) {
        super("limits", PARAMETERS);
        this.operations = operations;
        this.reports = reports;
        this.handlers = handlers;
        this.values = values;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        return request.result(request.hasEntry() ? find(request) : list(request));
    }

    /** The parameter {@code after} is the name after which the list begins. */
    private JsonObject list(OperationRequest request) {
        List<NameLimits> page = reports.page(request.text("after"), request.limit(DEFAULT_LIMIT));
        return new JsonObject()
                .with(
                        "limits",
                        List.copyOf(
                                objects(page, values.shownTo(request.caller())).values()));
    }

    /** Returns the limits of the first names by name. */
    Map<String, JsonObject> first(Sanitized shown) {
        return objects(reports.page(null, DEFAULT_LIMIT), shown);
    }

    private Map<String, JsonObject> objects(List<NameLimits> all, Sanitized shown) {
        Map<String, Long> held = reports.held(
                all.stream().flatMap(name -> names(name.name()).stream()).toList());
        var objects = new LinkedHashMap<String, JsonObject>();
        all.forEach(name -> objects.put(name.name(), object(name, held, shown)));
        return objects;
    }

    /** Returns the limits of one name with its groups; null if it has neither limits nor groups with a weight. */
    private @Nullable JsonObject find(OperationRequest request) {
        int most = request.limit(DEFAULT_GROUPS);
        Sanitized shown = values.shownTo(request.caller());
        String handler = handlerName(request.entry());
        NameLimits limits = reports.find(handler).orElse(null);
        if (limits == null && !reports.hasWeights(handler)) {
            return null;
        }
        return object(limits == null ? NameLimits.none(handler) : limits, reports.held(names(handler)), shown)
                .with("groups", shown.objects(reports.groups(handler, names(handler), most)));
    }

    private JsonObject object(NameLimits name, Map<String, Long> held, Sanitized shown) {
        long sum = names(name.name()).stream()
                .mapToLong(one -> held.getOrDefault(one, 0L))
                .sum();
        return new JsonObject()
                .with("name", name.name())
                .with("held", sum)
                .withAll(shown.object(name.limits()))
                .with("ordered", name.ordered())
                .with("overridden", name.overridden())
                .with("declared", name.overridden() ? shown.object(name.declared()) : null)
                .with("problem", name.problem());
    }

    /** Returns the name of the handler and its aliases: limits count the jobs of all of them. */
    private List<String> names(String handler) {
        JobHandler known = handlers.named(handler);
        return known == null ? List.of(handler) : known.names();
    }

    private String handlerName(String name) {
        JobHandler known = handlers.named(name);
        return known == null ? name : known.name();
    }

    /** The parameters of a request that changes limits or weights. */
    private record Change(
            @Nullable Integer concurrency,
            @Nullable Integer groupConcurrency,
            @Nullable String groupRate,
            @Nullable Long groupBurst,
            @Nullable String group,
            @Nullable Integer weight) {

        static Change of(OperationRequest request) {
            return new Change(
                    request.integer("concurrency"),
                    request.integer("groupConcurrency"),
                    request.text("groupRate"),
                    request.longInteger("groupBurst"),
                    request.text("group"),
                    request.integer("weight"));
        }

        boolean isEmpty() {
            return !hasLimits() && !hasWeight();
        }

        private boolean hasLimits() {
            return Stream.of(concurrency, groupConcurrency, groupRate, groupBurst)
                    .anyMatch(value -> value != null);
        }

        private boolean hasWeight() {
            return group != null || weight != null;
        }
    }

    /** Changes the limits of a name, or the weight of one of its groups. */
    @Override
    protected OperationResult change(OperationRequest request, String state) {
        String name = request.entry();
        Change change = Change.of(request);
        try {
            switch (state) {
                case "overridden" -> override(name, change);
                case "declared" -> {
                    require(change.isEmpty(), "State 'declared' takes no limits: it returns to those of the handler");
                    if (!operations.resetLimits(name)
                            && reports.find(handlerName(name)).isEmpty()) {
                        return request.notFound();
                    }
                }
                case "weighted" -> weigh(name, change);
                default ->
                    throw new InvalidOperationException(
                            "Unsupported state '%s' for limits: use 'overridden', 'declared' or 'weighted'"
                                    .formatted(state));
            }
        } catch (UnknownJobException e) {
            return new OperationResult.NotFound(String.valueOf(e.getMessage()));
        } catch (JobRejectedException | MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
        NameLimits now = reports.find(handlerName(name)).orElse(NameLimits.none(handlerName(name)));
        return request.result(object(now, reports.held(names(now.name())), values.shownTo(request.caller())));
    }

    private void override(String name, Change change) {
        require(!change.hasWeight(), "State 'overridden' takes limits; use 'weighted' for the weight of a group");
        require(
                change.hasLimits(),
                "State 'overridden' needs at least one of concurrency, groupConcurrency and groupRate; limits that are not given do not exist afterwards");
        operations.setLimits(name, limits(change));
    }

    private static JobLimits limits(Change change) {
        String rate = change.groupRate;
        Long burst = change.groupBurst;
        require(rate != null || burst == null, "groupBurst (%s) needs a groupRate".formatted(burst));
        try {
            return new JobLimits(
                    change.concurrency,
                    change.groupConcurrency,
                    rate == null ? null : rate(rate, burst == null ? 1 : burst));
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    private static RateLimit rate(String text, long burst) {
        try {
            return RateText.parse(text, burst);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("Parameter 'groupRate' (%s): %s".formatted(text, e.getMessage()), e);
        }
    }

    private void weigh(String name, Change change) {
        String group = change.group;
        Integer weight = change.weight;
        if (group == null || weight == null || change.hasLimits()) {
            throw new InvalidOperationException("State 'weighted' takes a group and a weight, and nothing else");
        }
        try {
            operations.setGroupWeight(name, group, weight);
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    private static void require(boolean valid, String message) {
        if (!valid) {
            throw new InvalidOperationException(message);
        }
    }
}

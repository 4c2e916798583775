// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.HistoryDescriptor.TimesDescriptor;
import dev.forge.cluster.autoconfigure.operations.JobNamesDescriptor.JobNameDescriptor;
import dev.forge.cluster.autoconfigure.operations.LimitsDescriptor.LimitDescriptor;
import dev.forge.cluster.job.JobSummary;
import dev.forge.cluster.job.Jobs;
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
final class JobNamesResource implements Resource {

    private static final int MOST_NAMES = 1_000;
    private static final Duration DEFAULT_RANGE = Duration.ofHours(1);
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("range");

    private final Jobs jobs;
    private final DemandResource demand;
    private final LimitsResource limits;

    JobNamesResource(Jobs jobs, DemandResource demand, LimitsResource limits) {
        this.jobs = jobs;
        this.demand = demand;
        this.limits = limits;
    }

    @Override
    public String name() {
        return "job-names";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        Duration range = request.duration("range", DEFAULT_RANGE);
        Map<String, DemandDescriptor.JobNameDescriptor> waiting = demand.read().jobs();
        Map<String, JobSummary> summaries;
        try {
            summaries = byName(jobs.summaries(range), JobSummary::name);
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
        Map<String, LimitDescriptor> limited = byName(limits.first(), LimitDescriptor::name);
        var names = new TreeSet<>(waiting.keySet());
        names.addAll(summaries.keySet());
        names.addAll(limited.keySet());
        // Not those of the demand, which is some seconds old: whoever pauses a name wants to see that it is paused. And
        // a name without
        // a handler must be found to be resumed.
        Set<String> paused = jobs.paused();
        names.addAll(paused);
        return request.result(new JobNamesDescriptor(
                range.toSeconds(),
                names.stream()
                        // Anybody who may enqueue can make up names: they must not push out the others.
                        .sorted(Comparator.comparing((String name) -> !isHandled(waiting.get(name)))
                                .thenComparing(Comparator.naturalOrder()))
                        .limit(MOST_NAMES)
                        .sorted()
                        .map(name -> descriptor(
                                name, paused.contains(name), waiting.get(name), summaries.get(name), limited.get(name)))
                        .toList(),
                names.size() > MOST_NAMES));
    }

    private static boolean isHandled(DemandDescriptor.@Nullable JobNameDescriptor waiting) {
        return waiting != null && waiting.slots() > 0;
    }

    private static <T> Map<String, T> byName(List<T> entries, Function<T, String> name) {
        return entries.stream().collect(Collectors.toMap(name, Function.identity(), (first, second) -> first));
    }

    private static JobNameDescriptor descriptor(
            String name,
            boolean paused,
            DemandDescriptor.@Nullable JobNameDescriptor waiting,
            @Nullable JobSummary did,
            @Nullable LimitDescriptor limits) {
        return new JobNameDescriptor(
                name,
                paused,
                waiting == null ? null : waiting.executor(),
                waiting == null ? 0 : waiting.due(),
                waiting == null || waiting.dueIsExact(),
                waiting == null ? 0 : waiting.oldestDueSeconds(),
                waiting == null ? 0 : waiting.running(),
                waiting == null ? 0 : waiting.slots(),
                did == null ? 0 : did.completed(),
                did == null ? 0 : did.failed(),
                did == null ? 0 : did.retried(),
                did == null ? 0 : did.recovered(),
                did == null ? 0 : did.completedPerMinute(),
                did == null ? 0 : did.failureRatio(),
                did == null ? null : TimesDescriptor.of(did.waiting()),
                did == null ? null : TimesDescriptor.of(did.running()),
                limits);
    }
}

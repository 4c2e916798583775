// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import dev.forge.cluster.job.operations.JobDemand.Total;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The gauges of the demand for workers. */
final class DemandGauges {

    /** How many entries without slots have gauges of their own: anybody who may enqueue can make up names and capabilities. */
    private static final int MOST_OTHERS = 100;

    private static final String NONE = "none";

    private static final Comparator<Entry> LARGEST_FIRST = Comparator.comparingLong(
                    (Entry entry) -> entry.due().jobs() + entry.running())
            .reversed();

    private final MeterRegistry registry;
    private final String cluster;
    private final Duration drainTarget;
    private final List<MultiGauge> all = new ArrayList<>();
    private final List<Published<Entry>> ofJobs;
    private final List<Published<Total>> ofExecutors;

    /** A gauge, and how its values are calculated; no value for null. */
    private record Published<T>(MultiGauge gauge, Function<T, @Nullable Number> value) {}

    /** @param drainTarget the time within which the needed slots would have run the due jobs */
    DemandGauges(MeterRegistry registry, String cluster, Duration drainTarget) {
        this.registry = registry;
        this.cluster = cluster;
        this.drainTarget = drainTarget;
        this.ofJobs = List.of(
                new Published<>(
                        gauge("forge.cluster.jobs.due", null, "Jobs that are due and have not started, up to 10,000"),
                        entry -> entry.due().jobs()),
                new Published<>(
                        gauge("forge.cluster.jobs.due.age", "seconds", "How long the oldest pending job has been due"),
                        entry -> seconds(entry.oldestDueAge() == null ? Duration.ZERO : entry.oldestDueAge())),
                new Published<>(gauge("forge.cluster.jobs.running", null, "Jobs that run"), Entry::running),
                new Published<>(
                        gauge("forge.cluster.jobs.slots", null, "Slots of active workers for these and other jobs"),
                        Entry::slots),
                new Published<>(
                        gauge("forge.cluster.jobs.slots.needed", null, "Slots that running and startable jobs need"),
                        entry -> entry.neededSlots(this.drainTarget)),
                new Published<>(
                        gauge("forge.cluster.jobs.drain.time", "seconds", "How long the slots need for the due jobs"),
                        entry -> seconds(entry.timeToDrain())));
        this.ofExecutors = List.of(
                new Published<>(gauge("forge.cluster.executor.slots", null, "Slots of active workers"), Total::slots),
                new Published<>(
                        gauge(
                                "forge.cluster.executor.slots.needed",
                                null,
                                "Slots that running and startable jobs need"),
                        total -> total.neededSlots(this.drainTarget)),
                new Published<>(
                        gauge(
                                "forge.cluster.executor.drain.time",
                                "seconds",
                                "How long the slots need for the due jobs"),
                        total -> seconds(total.timeToDrain())));
    }

    private MultiGauge gauge(String name, @Nullable String unit, String description) {
        MultiGauge gauge = MultiGauge.builder(name)
                .description(description)
                .baseUnit(unit)
                .tag("cluster", cluster)
                .register(registry);
        all.add(gauge);
        return gauge;
    }

    private static @Nullable Double seconds(@Nullable Duration duration) {
        return duration == null ? null : Double.valueOf(duration.toMillis() / 1000.0);
    }

    void publish(JobDemand demand) {
        List<Entry> entries = bounded(demand.entries());
        ofJobs.forEach(published -> publish(published, entries, DemandGauges::tags));
        ofExecutors.forEach(
                published -> publish(published, demand.executors(), total -> Tags.of("executor", total.name())));
    }

    /** Returns the entries that workers have slots for, the largest of the other ones, and one for all further ones. */
    static List<Entry> bounded(List<Entry> entries) {
        Map<Boolean, List<Entry>> bySlots =
                entries.stream().collect(Collectors.partitioningBy(entry -> entry.slots() > 0));
        var bounded = new ArrayList<>(Objects.requireNonNull(bySlots.get(true)));
        List<Entry> others = Objects.requireNonNull(bySlots.get(false)).stream()
                .sorted(LARGEST_FIRST)
                .toList();
        bounded.addAll(others.subList(0, Math.min(MOST_OTHERS, others.size())));
        if (others.size() > MOST_OTHERS) {
            var rest = new Total(JobDemand.OTHER, 0, others.subList(MOST_OTHERS, others.size()));
            bounded.add(new Entry(
                    JobDemand.OTHER,
                    JobDemand.OTHER,
                    JobDemand.OTHER,
                    rest.due(),
                    rest.oldestDueAge(),
                    rest.startable(),
                    rest.running(),
                    0,
                    1,
                    null,
                    false));
        }
        return bounded;
    }

    private static <T> void publish(Published<T> published, List<T> sources, Function<T, Tags> tags) {
        List<MultiGauge.Row<?>> rows = new ArrayList<>();
        for (T source : sources) {
            Number value = published.value.apply(source);
            if (value != null) {
                rows.add(MultiGauge.Row.of(tags.apply(source), value));
            }
        }
        published.gauge.register(rows, true);
    }

    private static Tags tags(Entry entry) {
        return Tags.of("job", entry.name(), "executor", entry.executor(), "capability", capability(entry.capability()));
    }

    /** Returns a tag that no other capability has: a job with the capability "none" must not hide the jobs that need none. */
    private static String capability(@Nullable String capability) {
        if (capability == null) {
            return NONE;
        }
        return capability.equals(NONE) || capability.startsWith("'") ? "'" + capability : capability;
    }

    void clear() {
        all.forEach(gauge -> gauge.register(List.of(), true));
    }
}

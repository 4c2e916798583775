// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.DemandDescriptor.JobNameDescriptor;
import dev.forge.cluster.autoconfigure.operations.DemandDescriptor.TotalDescriptor;
import dev.forge.cluster.job.JobDemand;
import dev.forge.cluster.job.JobDemand.Entry;
import dev.forge.cluster.job.JobDemand.Total;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The resource {@code demand}: shows how many slots jobs need, for automatic scaling. */
final class DemandResource implements Resource {

    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList();

    /** How long a response is used again: several scalers may ask at the same time. */
    private static final Duration LIFETIME = Duration.ofSeconds(5);

    /** A scaler must not wait for people who look at large values. The first reader reads for all. */
    private final ReadPermits permits = new ReadPermits(1);

    private final Supplier<JobDemand> source;
    private final Duration drainTarget;
    private final LongSupplier nanos;
    private volatile @Nullable Latest latest;

    private record Latest(DemandDescriptor descriptor, long readAt) {}

    DemandResource(Supplier<JobDemand> source, Duration drainTarget, LongSupplier nanos) {
        this.source = source;
        this.drainTarget = drainTarget;
        this.nanos = nanos;
    }

    @Override
    public String name() {
        return "demand";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public boolean boundsReaders() {
        return true;
    }

    /** Returns the demand as it was at most five seconds ago. Only those wait who find it older. */
    @Override
    public OperationResult read(OperationRequest request) {
        DemandDescriptor known = latest();
        return known != null ? request.result(known) : permits.read(() -> request.result(read()));
    }

    private @Nullable DemandDescriptor latest() {
        Latest known = latest;
        return known == null || nanos.getAsLong() - known.readAt > LIFETIME.toNanos() ? null : known.descriptor;
    }

    /** Returns the demand as it was at most five seconds ago, for one caller at a time. */
    DemandDescriptor read() {
        DemandDescriptor known = latest();
        if (known == null) {
            long now = nanos.getAsLong();
            known = descriptor(source.get());
            latest = new Latest(known, now);
        }
        return known;
    }

    private DemandDescriptor descriptor(JobDemand demand) {
        int slots = demand.executors().stream().mapToInt(Total::slots).sum();
        var jobs = new TreeMap<String, JobNameDescriptor>();
        demand.entries().stream()
                .collect(Collectors.groupingBy(Entry::name))
                .forEach((name, entries) -> jobs.put(name, jobName(name, entries)));
        return new DemandDescriptor(
                seconds(drainTarget),
                total(new Total("", slots, demand.entries())),
                totals(demand.executors()),
                totals(demand.capabilities()),
                jobs);
    }

    private Map<String, TotalDescriptor> totals(List<Total> totals) {
        var descriptors = new TreeMap<String, TotalDescriptor>();
        totals.forEach(total -> descriptors.put(total.name(), total(total)));
        return descriptors;
    }

    private TotalDescriptor total(Total total) {
        return new TotalDescriptor(
                total.due().jobs(),
                total.due().exact(),
                oldest(total),
                total.startable(),
                total.running(),
                total.slots(),
                total.neededSlots(drainTarget),
                drain(total));
    }

    /** @param entries those of one name: one for each capability */
    private JobNameDescriptor jobName(String name, List<Entry> entries) {
        var total =
                new Total(name, entries.stream().mapToInt(Entry::slots).max().orElse(0), entries);
        return new JobNameDescriptor(
                entries.get(0).executor(),
                entries.get(0).paused(),
                total.due().jobs(),
                total.due().exact(),
                oldest(total),
                total.startable(),
                total.running(),
                total.slots(),
                total.neededSlots(drainTarget),
                entries.stream().anyMatch(entry -> entry.timeToDrain() == null) ? null : drain(total));
    }

    private static double oldest(Total total) {
        Duration age = total.oldestDueAge();
        return age == null ? 0 : seconds(age);
    }

    private static @Nullable Double drain(Total total) {
        Duration time = total.timeToDrain();
        return time == null ? null : Double.valueOf(seconds(time));
    }

    private static double seconds(Duration duration) {
        return duration.toMillis() / 1000.0;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.ReadPermits;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.job.operations.JobDemand;
import dev.forge.cluster.job.operations.JobDemand.Entry;
import dev.forge.cluster.job.operations.JobDemand.Total;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The resource {@code demand}: shows how many slots jobs need, for automatic scaling. */
final class DemandResource extends Resource {

    /** How long a response is used again: several scalers may ask at the same time. */
    private static final Duration LIFETIME = Duration.ofSeconds(5);

    /** A scaler must not wait for people who look at large values. The first reader reads for all. */
    private final ReadPermits permits = new ReadPermits(1);

    private final Supplier<JobDemand> source;
    private final Duration drainTarget;
    private final LongSupplier nanos;
    private volatile @Nullable Latest latest;

    private record Latest(Demand demand, long readAt) {}

    /**
     * The demand.
     *
     * @param all what the resource returns, except for the names
     * @param names the demand of each name
     */
    record Demand(JsonObject all, Map<String, JsonObject> names) {}

    DemandResource(Supplier<JobDemand> source, Duration drainTarget, LongSupplier nanos) {
        super("demand", ResourceParameters.ofList());
        this.source = source;
        this.drainTarget = drainTarget;
        this.nanos = nanos;
    }

    @Override
    protected boolean boundsReaders() {
        return true;
    }

    /** Returns the demand as it was at most five seconds ago. Only those wait who find it older. */
    @Override
    protected OperationResult read(OperationRequest request) {
        Demand known = latest();
        return known != null ? result(request, known) : permits.read(() -> result(request, read()));
    }

    private static OperationResult result(OperationRequest request, Demand demand) {
        return request.result(new JsonObject().withAll(demand.all).with("jobs", demand.names));
    }

    private @Nullable Demand latest() {
        Latest known = latest;
        return known == null || nanos.getAsLong() - known.readAt > LIFETIME.toNanos() ? null : known.demand;
    }

    /** Returns the demand as it was at most five seconds ago, for one caller at a time. */
    Demand read() {
        Demand known = latest();
        if (known == null) {
            long now = nanos.getAsLong();
            known = demand(source.get());
            latest = new Latest(known, now);
        }
        return known;
    }

    private Demand demand(JobDemand demand) {
        int slots = demand.executors().stream().mapToInt(Total::slots).sum();
        var names = new TreeMap<String, JsonObject>();
        demand.entries().stream()
                .collect(Collectors.groupingBy(Entry::name))
                .forEach((name, entries) -> names.put(name, ofName(name, entries)));
        Total total = new Total("", slots, demand.entries());
        return new Demand(
                new JsonObject()
                        .with("drainTargetSeconds", seconds(drainTarget))
                        .with("total", ofTotal(total).with("drainSeconds", seconds(total.timeToDrain())))
                        .with("executors", ofTotals(demand.executors()))
                        .with("capabilities", ofTotals(demand.capabilities())),
                names);
    }

    private Map<String, JsonObject> ofTotals(List<Total> totals) {
        var objects = new TreeMap<String, JsonObject>();
        totals.forEach(total ->
                objects.put(total.name(), ofTotal(total).with("drainSeconds", seconds(total.timeToDrain()))));
        return objects;
    }

    private JsonObject ofTotal(Total total) {
        Duration oldest = total.oldestDueAge();
        return new JsonObject()
                .with("due", total.due().jobs())
                .with("dueIsExact", total.due().exact())
                .with("oldestDueSeconds", seconds(oldest == null ? Duration.ZERO : oldest))
                .with("startable", total.startable())
                .with("running", total.running())
                .with("slots", total.slots())
                .with("neededSlots", total.neededSlots(drainTarget));
    }

    /** @param entries those of one name: one for each capability */
    private JsonObject ofName(String name, List<Entry> entries) {
        var total =
                new Total(name, entries.stream().mapToInt(Entry::slots).max().orElse(0), entries);
        boolean unknown = entries.stream().anyMatch(entry -> entry.timeToDrain() == null);
        return new JsonObject()
                .with("executor", entries.get(0).executor())
                .with("paused", entries.get(0).paused())
                .withAll(ofTotal(total))
                .with("drainSeconds", unknown ? null : seconds(total.timeToDrain()));
    }

    private static @Nullable Double seconds(@Nullable Duration duration) {
        return duration == null ? null : Double.valueOf(duration.toMillis() / 1000.0);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import dev.forge.cluster.internal.job.history.JobHistoryCounters.Batch;
import dev.forge.cluster.internal.job.history.JobHistoryStore.Added;
import dev.forge.cluster.internal.job.history.JobHistoryStore.InDoubt;
import dev.forge.cluster.internal.job.history.JobHistoryStore.Sample;
import dev.forge.cluster.internal.job.operate.JobDemandReports;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Due;
import dev.forge.cluster.internal.job.operate.JobDemandReports.Held;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.leader.Leadership;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Writes what this node has counted. If it leads the role metrics_aggregator, it also samples the backlog once a minute, rolls old
 * minutes up and deletes old rows. The node ends its components in order, so this one comes after the jobs: it then writes what was
 * counted during the drain.
 */
public final class JobHistoryKeeper implements NodeComponent {

    private static final Logger log = GuardedLogger.of(JobHistoryKeeper.class);

    private static final Duration FLUSH = Duration.ofSeconds(10);

    /** Shorter than a minute, so that no minute is left out. */
    private static final Duration AGGREGATE = Duration.ofSeconds(20);

    private static final int ROLLED_UP = 2_000;
    private static final int PURGED = 5_000;

    /** How many statements of each kind a pass sends; the next one continues. */
    private static final int MOST_STATEMENTS = 50;

    private final Node node;
    private final JobHistoryCounters counters;
    private final Duration retention;
    private final Supplier<? extends Collection<String>> names;
    private final JobHistoryStore store;
    private final LeaderStore leaders;
    private final JobDemandReports reports;

    /** A batch that may have been written although the response was lost. */
    private @Nullable Doubt doubt;

    private record Doubt(String transaction, Batch batch) {}

    /** @param names returns the names of jobs whose backlog is sampled, however many other names there are */
    public JobHistoryKeeper(
            Node node, JobHistoryCounters counters, Duration retention, Supplier<? extends Collection<String>> names) {
        this.node = node;
        this.counters = counters;
        this.retention = retention;
        this.names = names;
        var resources = node.resources();
        this.store = new JobHistoryStore(resources.schema(), resources.control());
        this.leaders = new LeaderStore(resources.schema(), resources.control());
        this.reports = new JobDemandReports(resources.schema(), resources.control());
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(
                NodeLoop.upkeep("write-history", () -> FLUSH, this::flush),
                NodeLoop.upkeep("aggregate-history", () -> AGGREGATE, this::aggregate));
    }

    @Override
    public void end() {
        try {
            flush();
        } catch (RuntimeException e) {
            log.debug("The history of jobs lacks what this node has ended in its last seconds", e);
        }
    }

    // Every node --------------------------------------------------------------------------------------------

    /** Writes what was counted since the last call; sends nothing if nothing was counted. */
    public synchronized void flush() {
        if (isUndecided()) {
            return;
        }
        Batch batch = counters.unwritten();
        if (batch.rows().isEmpty()) {
            return;
        }
        Added added = store.add(batch.rows());
        if (added instanceof InDoubt unknown) {
            doubt = new Doubt(unknown.transaction(), batch);
        } else {
            counters.written(batch);
        }
    }

    /** Returns whether it is not known yet whether the last batch was written. */
    private boolean isUndecided() {
        Doubt open = doubt;
        if (open == null) {
            return false;
        }
        switch (store.outcome(open.transaction)) {
            case IN_PROGRESS -> {
                return true;
            }
            case COMMITTED -> counters.written(open.batch);
            case ABORTED -> log.debug("The last batch of the history was not written and is repeated");
        }
        doubt = null;
        return false;
    }

    // The leader --------------------------------------------------------------------------------------------

    /** Makes one pass of the leader: once in a minute of the database's clock it samples the backlog and shrinks the table. */
    void aggregate() {
        OptionalLong term = node.elector().term(Leadership.METRICS_AGGREGATOR);
        UUID self = node.id();
        if (term.isEmpty() || self == null || store.isSampled()) {
            return;
        }
        aggregate(self, term.getAsLong());
    }

    /** Makes a pass as the leader of a term; changes nothing if that term is over. */
    void aggregate(UUID self, long term) {
        List<Sample> samples = samples();
        if (fenced(self, term, () -> store.sample(samples)) == 0) {
            return;
        }
        Loop.each(
                () -> repeat(self, term, ROLLED_UP, () -> store.rollUp(ROLLED_UP)),
                () -> repeat(self, term, PURGED, () -> store.purge(retention, PURGED)));
    }

    private void repeat(UUID self, long term, int full, IntSupplier change) {
        int statements = 0;
        while (fenced(self, term, change) >= full && ++statements < MOST_STATEMENTS) {
            log.debug("The history of jobs has more old rows");
        }
    }

    /** Makes a change that is rolled back if the term is over; returns how many rows it changed. */
    private int fenced(UUID self, long term, IntSupplier change) {
        Integer changed = store.transaction().execute(status -> {
            int made = change.getAsInt();
            if (made > 0 && !node.fences().take(leaders, Leadership.METRICS_AGGREGATOR, self, term)) {
                status.setRollbackOnly();
                return 0;
            }
            return made;
        });
        return changed == null ? 0 : changed;
    }

    /** Returns the backlog of each name that has one, and of all together; names beyond the bound are added up. */
    List<Sample> samples() {
        var byName = new HashMap<String, Sample>();
        JobDemandReports.Waiting waiting = reports.due(names.get(), reports.offered());
        waiting.places().forEach((place, due) -> add(byName, sample(place.name(), due)));
        waiting.rest().forEach((name, due) -> add(byName, sample(name, due)));
        reports.held().forEach((place, held) -> add(byName, sample(place.name(), held)));
        List<Sample> largest = byName.values().stream()
                .filter(one -> !one.name().equals(JobHistoryCounters.OTHER_NAMES))
                .sorted(Comparator.comparingLong((Sample one) -> one.due() + one.running())
                        .reversed()
                        .thenComparing(Sample::name))
                .limit(JobHistoryCounters.MOST_NAMES)
                .toList();
        var rows = new HashMap<String, Sample>();
        rows.put(JobHistoryCounters.ALL_NAMES, new Sample(JobHistoryCounters.ALL_NAMES, 0, Duration.ZERO, 0));
        largest.forEach(one -> rows.put(one.name(), one));
        for (Sample one : byName.values()) {
            if (!rows.containsKey(one.name()) || one.name().equals(JobHistoryCounters.OTHER_NAMES)) {
                add(rows, named(JobHistoryCounters.OTHER_NAMES, one));
            }
            add(rows, named(JobHistoryCounters.ALL_NAMES, one));
        }
        return new ArrayList<>(rows.values());
    }

    private static Sample sample(String name, Due due) {
        return new Sample(name, due.jobs(), due.oldest(), 0);
    }

    private static Sample sample(String name, Held held) {
        return new Sample(name, held.claimed(), Duration.ZERO, held.running());
    }

    private static Sample named(String name, Sample other) {
        return new Sample(name, other.due(), other.oldest(), other.running());
    }

    private static void add(Map<String, Sample> samples, Sample one) {
        samples.merge(
                one.name(),
                one,
                (a, b) -> new Sample(
                        a.name(),
                        a.due() + b.due(),
                        a.oldest().compareTo(b.oldest()) > 0 ? a.oldest() : b.oldest(),
                        a.running() + b.running()));
    }
}

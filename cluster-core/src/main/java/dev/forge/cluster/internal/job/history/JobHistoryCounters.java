// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;

/**
 * Counts the ends of jobs on this node. Counting takes no lock and, after the first job of its kind, allocates nothing. Counters only
 * grow: what is not written yet is their difference to what was written, so nothing is lost between reading and resetting.
 */
public final class JobHistoryCounters implements JobMonitor {

    /** The row of all jobs. No job has that name. */
    static final String ALL_NAMES = "";

    /** The row of jobs whose names are not counted separately. */
    static final String OTHER_NAMES = JobReports.OTHER_NAMES;

    /** How many names are counted separately at a time. */
    static final int MOST_NAMES = 200;

    static final int COMPLETED = 0;
    static final int FAILED = 1;
    static final int RETRIED = 2;
    static final int RECOVERED = 3;
    static final int WAITS = 4;
    static final int RUNS = WAITS + TimeHistogram.BUCKETS;
    static final int KINDS = RUNS + TimeHistogram.BUCKETS;

    private final Map<String, Counters> byName = new ConcurrentHashMap<>();
    private final Counters others = new Counters(OTHER_NAMES);

    /** Counters without a place in the map, which a thread that found them before may still use. */
    private final List<Counters> retired = new ArrayList<>();

    /** How long a thread may need at most between finding counters and using them, with much time to spare. */
    private static final long USED_NANOS = Duration.ofMinutes(1).toNanos();

    /** What was counted for one name. */
    private static final class Counters {

        private final String name;
        private final AtomicReferenceArray<@Nullable LongAdder> adders = new AtomicReferenceArray<>(KINDS);
        private final long[] written = new long[KINDS];
        private long retiredAt;

        Counters(String name) {
            this.name = name;
        }

        void increment(int kind) {
            LongAdder adder = adders.get(kind);
            if (adder == null) {
                adders.compareAndSet(kind, null, new LongAdder());
                adder = adders.get(kind);
            }
            if (adder != null) {
                adder.increment();
            }
        }

        /** Returns what is not written yet; null if there is nothing. */
        long @Nullable [] unwritten() {
            long[] unwritten = null;
            for (int kind = 0; kind < KINDS; kind++) {
                LongAdder adder = adders.get(kind);
                long count = adder == null ? 0 : adder.sum() - written[kind];
                if (count > 0) {
                    unwritten = unwritten == null ? new long[KINDS] : unwritten;
                    unwritten[kind] = count;
                }
            }
            return unwritten;
        }

        void written(long[] counts) {
            for (int kind = 0; kind < KINDS; kind++) {
                written[kind] += counts[kind];
            }
        }
    }

    // Counting ----------------------------------------------------------------------------------------------

    @Override
    public boolean observes() {
        return false;
    }

    @Override
    public void started(String name, Duration waited) {
        of(name).increment(WAITS + TimeHistogram.bucket(waited.toNanos()));
    }

    @Override
    public void ended(String name, JobAttemptOutcome.Kind outcome, long ranNanos) {
        switch (outcome) {
            case COMPLETED -> ended(name, COMPLETED, ranNanos);
            case RETRIED -> ended(name, RETRIED, ranNanos);
            // Counted as failed below, with those that failed without an attempt.
            case FAILED -> of(name).increment(RUNS + TimeHistogram.bucket(ranNanos));
            case SNOOZED, RETURNED, LOST -> {
                // The job runs again, and nothing has failed.
            }
        }
    }

    private void ended(String name, int kind, long ranNanos) {
        Counters counters = of(name);
        counters.increment(kind);
        counters.increment(RUNS + TimeHistogram.bucket(ranNanos));
    }

    @Override
    public void failed(UUID id, String name, JobStatus status, String error) {
        of(name).increment(FAILED);
    }

    @Override
    public void recovered(String name) {
        of(name).increment(RECOVERED);
    }

    private Counters of(String name) {
        Counters known = byName.get(name);
        return known != null ? known : added(name);
    }

    private Counters added(String name) {
        if (byName.size() >= MOST_NAMES || name.equals(OTHER_NAMES) || name.equals(ALL_NAMES)) {
            return others;
        }
        synchronized (byName) {
            return byName.size() >= MOST_NAMES ? others : byName.computeIfAbsent(name, Counters::new);
        }
    }

    // Writing -----------------------------------------------------------------------------------------------

    /** What was counted for a name since the last batch. */
    static final class Row {

        private final String name;
        private final long[] counts;

        Row(String name, long[] counts) {
            this.name = name;
            this.counts = counts;
        }

        String name() {
            return name;
        }

        long[] counts() {
            return counts;
        }
    }

    /** Numbers that are to be written, in rows that are ordered by name; the first row has all names together. */
    static final class Batch {

        private final List<Row> rows;
        private final List<Counters> counters;
        private final List<long[]> counts;

        private Batch(List<Row> rows, List<Counters> counters, List<long[]> counts) {
            this.rows = rows;
            this.counters = counters;
            this.counts = counts;
        }

        List<Row> rows() {
            return rows;
        }
    }

    /**
     * Returns what is not written yet; call {@link #written} before the next call if it was written. One thread at a time may call
     * this.
     */
    Batch unwritten() {
        long now = System.nanoTime();
        // A thread that found the counters before they were removed has used them long since.
        retired.removeIf(counters -> now - counters.retiredAt > USED_NANOS && counters.unwritten() == null);
        var counters = new ArrayList<Counters>();
        var counts = new ArrayList<long[]>();
        var byRow = new TreeMap<String, long[]>();
        List<Counters> all = new ArrayList<>(byName.values());
        boolean full = all.size() >= MOST_NAMES;
        all.add(others);
        all.addAll(retired);
        for (Counters one : all) {
            long[] unwritten = one.unwritten();
            if (unwritten != null) {
                counters.add(one);
                counts.add(unwritten);
                add(byRow.computeIfAbsent(one.name, name -> new long[KINDS]), unwritten);
                add(byRow.computeIfAbsent(ALL_NAMES, name -> new long[KINDS]), unwritten);
            } else if (full && byName.remove(one.name, one)) {
                // Makes room for a name that has jobs now.
                one.retiredAt = now;
                retired.add(one);
            }
        }
        return new Batch(
                byRow.entrySet().stream()
                        .map(entry -> new Row(entry.getKey(), entry.getValue()))
                        .toList(),
                counters,
                counts);
    }

    private static void add(long[] sums, long[] counts) {
        for (int kind = 0; kind < KINDS; kind++) {
            sums[kind] += counts[kind];
        }
    }

    /** Records that a batch was written. */
    void written(Batch batch) {
        for (int i = 0; i < batch.counters.size(); i++) {
            batch.counters.get(i).written(batch.counts.get(i));
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.job.JobOptions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Compares enqueueing on a node that runs no jobs with hand-written INSERTs into the same table. */
final class EnqueuePart implements Part {

    private static final int BULK = 100_000;
    /**
     * The number of slices per round. Both sides alternate slice by slice, and the median slice counts. A slice is long enough
     * to include announcements to other nodes.
     */
    private static final int SLICES = 25;

    private static final long SLICE_NANOS = 60_000_000;
    private static final int CALLERS = 8;

    @Override
    public void run(Server server, Report report) throws Exception {
        var raw = new RawSql(server.pool());
        var rounds = new Rounds();
        try (var node = new Ours("enqueuer", server, new Handlers.Plain(() -> {}), Ours.NO_WORKER)) {
            node.start();
            long began = System.nanoTime();
            while (System.nanoTime() - began < Drains.WARM_UP.toNanos()) {
                compare(new Rounds(), "warm-up", 1, node::enqueueOne, raw::insertOne);
            }
            for (int round = 0; round < Rounds.COUNT; round++) {
                raw.empty();
                server.execute("CHECKPOINT");
                compare(rounds, "single", 1, node::enqueueOne, raw::insertOne);
                compare(rounds, "callers", CALLERS, node::enqueueOne, raw::insertOne);
            }
            List<Ours.Trivial> payloads = new ArrayList<>(Collections.nCopies(BULK, new Ours.Trivial(42)));
            for (int round = 0; round < Rounds.COUNT; round++) {
                raw.empty();
                server.execute("CHECKPOINT");
                rounds.add("bulk raw", raw.insert(BULK));
                raw.empty();
                server.execute("CHECKPOINT");
                long start = System.nanoTime();
                node.jobs().enqueueAll(payloads, JobOptions.defaults());
                rounds.add("bulk", BULK / ((System.nanoTime() - start) / 1e9));
            }
        }
        raw.empty();
        report.add("single, own transaction: bare INSERT", rounds.median("single raw"), "jobs/s");
        report.add("single, own transaction: Forge Cluster", rounds.median("single"), "jobs/s");
        report.atLeast(0.93, "single, Forge Cluster : bare INSERT", rounds.median("single ratio"), "x");
        report.add("%d callers: bare INSERT".formatted(CALLERS), rounds.median("callers raw"), "jobs/s");
        report.add("%d callers: Forge Cluster".formatted(CALLERS), rounds.median("callers"), "jobs/s");
        report.add("%d callers, Forge Cluster : bare INSERT".formatted(CALLERS), rounds.median("callers ratio"), "x");
        report.add("bulk: multi-row INSERT", rounds.median("bulk raw"), "jobs/s");
        report.add("bulk: Forge Cluster", rounds.median("bulk"), "jobs/s");
        report.atLeast(0.7, "bulk, Forge Cluster : INSERT", rounds.median("bulk") / rounds.median("bulk raw"), "x");
    }

    private static void compare(Rounds rounds, String name, int callers, Runnable ours, Runnable raw) throws Exception {
        var slices = new Rounds();
        var threads = Executors.newFixedThreadPool(callers);
        try {
            for (int slice = 0; slice < SLICES; slice++) {
                slices.add("raw", perSecond(threads, callers, raw));
                slices.add("ours", perSecond(threads, callers, ours));
            }
        } finally {
            threads.shutdown();
        }
        rounds.add(name, slices.median("ours"));
        rounds.add(name + " raw", slices.median("raw"));
        rounds.add(name + " ratio", slices.median("ours") / slices.median("raw"));
    }

    private static double perSecond(ExecutorService threads, int callers, Runnable insert) throws Exception {
        long start = System.nanoTime();
        Callable<Integer> caller = () -> {
            int done = 0;
            while (System.nanoTime() - start < SLICE_NANOS) {
                insert.run();
                done++;
            }
            return done;
        };
        int done = 0;
        for (Future<Integer> one : threads.invokeAll(Collections.nCopies(callers, caller))) {
            done += one.get();
        }
        return done / ((System.nanoTime() - start) / 1e9);
    }
}

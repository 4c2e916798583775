// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Pause;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Measures the time from the call of {@code enqueue} on an idle cluster, including its commit, to the first line of the
 * handler: on the enqueuing node, and on another node.
 */
final class PickupPart implements Part {

    private static final int WARM_UP = 20;
    private static final int JOBS = 200;

    @Override
    public void run(Server server, Report report) throws Exception {
        new RawSql(server.pool()).empty();
        var rounds = new Rounds();
        var started = new SynchronousQueue<Long>();
        for (int round = 0; round < Rounds.COUNT; round++) {
            try (var node = new Ours("alone", server, new Handlers.Plain(() -> tell(started)))) {
                node.start();
                add(rounds, "same node", latencies(node, started));
            }
            try (var worker = new Ours("worker", server, new Handlers.Plain(() -> tell(started)));
                    var enqueuer = new Ours("enqueuer", server, new Handlers.Plain(() -> {}), Ours.NO_WORKER)) {
                worker.start();
                enqueuer.start();
                add(rounds, "another node", latencies(enqueuer, started));
            }
        }
        report.atMost(5, "same node, p50", rounds.median("same node p50"), "ms");
        report.atMost(15, "same node, p99", rounds.median("same node p99"), "ms");
        report.add("another node, p50", rounds.median("another node p50"), "ms");
        report.atMost(15, "another node, p99", rounds.median("another node p99"), "ms");
        report.atMost(
                1.3,
                "another node, p50 : same node, p50",
                rounds.median("another node p50") / rounds.median("same node p50"),
                "x");
    }

    private static void tell(SynchronousQueue<Long> started) {
        long now = System.nanoTime();
        try {
            started.put(now);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void add(Rounds rounds, String where, List<Double> millis) {
        rounds.add(where + " p50", Rounds.percentile(millis, 50));
        rounds.add(where + " p99", Rounds.percentile(millis, 99));
    }

    private static List<Double> latencies(Ours enqueuer, SynchronousQueue<Long> started) throws InterruptedException {
        List<Double> millis = new ArrayList<>(JOBS);
        for (int job = -WARM_UP; job < JOBS; job++) {
            // A random pause, so that calls do not synchronise with the loops of the nodes.
            Pause.millis(20 + ThreadLocalRandom.current().nextInt(30));
            long called = System.nanoTime();
            enqueuer.enqueueOne();
            Long began = started.poll(30, TimeUnit.SECONDS);
            if (began == null) {
                throw new IllegalStateException("Job was not started within 30 s");
            }
            if (job >= 0) {
                millis.add((began - called) / 1e6);
            }
        }
        return millis;
    }
}

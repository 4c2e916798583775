// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Cpu;
import dev.forge.cluster.benchmarks.measure.Pause;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.job.JobOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Enqueues and runs 5,000 jobs a second for several minutes, with a short retention. Finished jobs must leave the table as fast
 * as new jobs enter it, and neither the table nor its indexes may grow.
 */
final class SteadyPart implements Part {

    private static final int MINUTES = Integer.getInteger("benchmarks.steady-minutes", 6);
    private static final int PER_SECOND = 5_000;
    private static final int BATCH = 100;
    private static final Duration RETENTION = Duration.ofMinutes(2);
    /** The number of windows of equal length. The first and the last one are compared. */
    private static final int WINDOWS = 6;

    private record Window(double perSecond, Cpu.Used cpu, long backlog) {}

    @Override
    public void run(Server server, Report report) throws InterruptedException {
        new RawSql(server.pool()).empty();
        server.execute("CHECKPOINT");
        var runs = new AtomicLong();
        var settings = Map.of("forge.cluster.job.retention.completed", RETENTION.toString());
        var enqueuerSettings = new HashMap<>(settings);
        enqueuerSettings.putAll(Ours.NO_WORKER);
        List<Window> windows = new ArrayList<>();
        try (var worker = new Ours("worker", server, new Handlers.Plain(runs::incrementAndGet), settings);
                var enqueuer = new Ours("enqueuer", server, new Handlers.Plain(() -> {}), enqueuerSettings)) {
            worker.start();
            enqueuer.start();
            var enqueued = new AtomicLong();
            var enqueueing = new Thread(() -> enqueue(enqueuer, enqueued), "enqueue");
            enqueueing.setDaemon(true);
            enqueueing.start();
            for (int window = 0; window < WINDOWS; window++) {
                Cpu.Used cpu = server.cpu().now();
                long before = runs.get();
                long start = System.nanoTime();
                Pause.millis(Duration.ofMinutes(MINUTES).toMillis() / WINDOWS);
                double seconds = (System.nanoTime() - start) / 1e9;
                var latest = new Window(
                        (runs.get() - before) / seconds,
                        server.cpu().now().since(cpu),
                        Math.max(0, enqueued.get() - runs.get()));
                windows.add(latest);
                report.note("%,.0f jobs/s, %,d waiting, %,d MB"
                        .formatted(latest.perSecond, latest.backlog, size(server) >> 20));
            }
            enqueueing.interrupt();
            enqueueing.join();
        }
        Window first = windows.get(0);
        Window last = windows.get(WINDOWS - 1);
        report.add(
                "jobs/s in the first of %d windows, %d minutes".formatted(WINDOWS, MINUTES), first.perSecond, "jobs/s");
        report.add("jobs/s in the last window", last.perSecond, "jobs/s");
        report.atLeast(0.95, "last window : first window", last.perSecond / first.perSecond, "x");
        report.add("jobs waiting at the end", (double) last.backlog, "");
        Long server0 = first.cpu.server();
        Long server1 = last.cpu.server();
        if (server0 != null && server1 != null) {
            report.add("CPU of the server, last window : first window", (double) server1 / server0, "x");
        }
        long live = server.number("SELECT count(*) FROM forge_jobs");
        long size = size(server);
        long compact = compactSize(server);
        report.add("rows at the end", (double) live, "");
        report.add("table and indexes at the end", size / (double) (1 << 20), "MB");
        report.atMost(3, "table and indexes : the same rows in a new table", (double) size / compact, "x");
        new RawSql(server.pool()).empty();
    }

    private static void enqueue(Ours node, AtomicLong enqueued) {
        List<Ours.Trivial> payloads = new ArrayList<>(Collections.nCopies(BATCH, new Ours.Trivial(42)));
        long start = System.nanoTime();
        while (!Thread.currentThread().isInterrupted()) {
            double due = (System.nanoTime() - start) / 1e9 * PER_SECOND;
            if (enqueued.get() < due) {
                node.jobs().enqueueAll(payloads, JobOptions.defaults());
                enqueued.addAndGet(BATCH);
            } else {
                try {
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }

    private static long size(Server server) {
        return server.number("SELECT pg_total_relation_size('forge_jobs')");
    }

    private static long compactSize(Server server) {
        server.execute("CREATE TABLE compact (LIKE forge_jobs INCLUDING ALL)");
        server.execute("INSERT INTO compact SELECT * FROM forge_jobs");
        long size = server.number("SELECT pg_total_relation_size('compact')");
        server.execute("DROP TABLE compact");
        return size;
    }
}

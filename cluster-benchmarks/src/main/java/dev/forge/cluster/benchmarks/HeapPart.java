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
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/** Measures the whole heap of this process while a node works on a table of a million pending jobs. */
final class HeapPart implements Part {

    private static final int PENDING = 1_000_000;
    private static final int BETWEEN = 20_000;
    private static final double MEGABYTE = 1 << 20;

    @Override
    public void run(Server server, Report report) {
        var rows = new RawSql(server.pool());
        rows.empty();
        System.gc();
        report.add("before the node starts", used(), "MB");
        server.execute("""
                INSERT INTO forge_jobs (id, name, payload)
                SELECT gen_random_uuid(), 'trivial', '{"orderId": 42}' FROM generate_series(1, %d)
                """.formatted(PENDING));
        server.execute("VACUUM ANALYZE forge_jobs");
        var rounds = new Rounds();
        var runs = new AtomicLong();
        try (var node = new Ours("worker", server, new Handlers.Plain(runs::incrementAndGet))) {
            node.start();
            for (int round = 1; round <= Rounds.COUNT; round++) {
                while (runs.get() < (long) round * BETWEEN) {
                    Pause.millis(5);
                }
                System.gc();
                rounds.add("heap", used());
            }
        }
        rows.empty();
        report.atMost(256, "after GC, 1,000,000 pending jobs, one working node", rounds.median("heap"), "MB");
    }

    private static double used() {
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MEGABYTE;
    }
}

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
import java.util.concurrent.TimeUnit;

/** Measures the load that an idle node puts on the server. */
final class IdlePart implements Part {

    private static final long SETTLE_MILLIS = 3_000;
    private static final long WINDOW_MILLIS = 10_000;

    @Override
    public void run(Server server, Report report) {
        new RawSql(server.pool()).empty();
        var rounds = new Rounds();
        try (var node = new Ours("idle", server, new Handlers.Plain(() -> {}))) {
            node.start();
            Pause.millis(SETTLE_MILLIS);
            for (int round = 0; round < Rounds.COUNT; round++) {
                long before = transactions(server);
                long start = System.nanoTime();
                Pause.millis(WINDOW_MILLIS);
                // Excludes the query that reads the counter.
                long done = transactions(server) - before - 1;
                rounds.add(
                        "idle", Math.max(0, done) * (double) TimeUnit.SECONDS.toNanos(1) / (System.nanoTime() - start));
            }
        }
        report.add("transactions of one idle node", rounds.median("idle"), "/s");
    }

    /** Returns the number of transactions that have ended in this database. */
    static long transactions(Server server) {
        return server.number(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()");
    }
}

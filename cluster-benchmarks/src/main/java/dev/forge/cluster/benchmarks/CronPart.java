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

/** Measures how fast one leader fires ten thousand crons that are due in the same second. */
final class CronPart implements Part {

    private static final int CRONS = 10_000;
    private static final int AHEAD_SECONDS = 3;
    private static final long MOST_MILLIS = 5_000;
    private static final long PATIENCE_MILLIS = 60_000;

    @Override
    public void run(Server server, Report report) {
        new RawSql(server.pool()).empty();
        var rounds = new Rounds();
        try (var node = new Ours("crons", server, new Handlers.Plain(() -> {}))) {
            node.start();
            for (int round = 0; round < Rounds.COUNT; round++) {
                server.execute("DELETE FROM forge_crons");
                server.execute("DELETE FROM forge_cron_runs");
                // Inserts run-time crons for any worker. Their expression makes them due again after an hour.
                server.execute("""
                        INSERT INTO forge_crons (name, handler, payload, expression, target, declared, next_fire_at, overlap)
                        SELECT 'cron-' || n, '%s', '{"orderId": 42}', '@every PT1H', 'any-worker', false,
                               date_trunc('second', clock_timestamp()) + interval '%d s', 'allow'
                        FROM generate_series(1, %d) AS n
                        """.formatted(Ours.JOB, AHEAD_SECONDS, CRONS));
                long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MILLIS);
                while (server.number("SELECT count(*) FROM forge_cron_runs WHERE outcome = 'ran'") < CRONS
                        && System.nanoTime() < deadline) {
                    Pause.millis(100);
                }
                rounds.add("fired", (double)
                        server.number("SELECT (extract(epoch FROM max(fired_at) - min(slot)) * 1000)::bigint"
                                + " FROM forge_cron_runs"));
            }
        }
        long fired = server.number("SELECT count(*) FROM forge_cron_runs WHERE outcome = 'ran'");
        report.atLeast(CRONS, "fired crons (of " + CRONS + ")", (double) fired, "");
        report.atMost(
                MOST_MILLIS,
                CRONS + " crons due in one second: time until the last one fired",
                rounds.median("fired"),
                "ms");
        server.execute("DELETE FROM forge_crons");
        server.execute("DELETE FROM forge_cron_runs");
    }
}

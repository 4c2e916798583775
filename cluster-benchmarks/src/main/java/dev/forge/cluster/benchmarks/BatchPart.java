// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.util.List;

/** Measures what a batch costs its jobs: the same drain with and without one. */
final class BatchPart implements Part {

    private static final int JOBS = 100_000;

    /** More than elsewhere: the difference is small. */
    private static final int ROUNDS = 5;

    private static final String WITHOUT = "no batch";
    private static final String WITH = "one batch";

    @Override
    public void run(Server server, Report report) {
        var rounds = new Rounds();
        for (int round = -1; round < ROUNDS; round++) {
            // Neither load always comes second.
            for (String load : round % 2 == 0 ? List.of(WITHOUT, WITH) : List.of(WITH, WITHOUT)) {
                Race.Result result = drain(server, load.equals(WITH));
                if (round >= 0) {
                    rounds.add(load, result.perSecond());
                    Double micros = result.serverMicros();
                    rounds.add(load + " cpu", result.clientMicros() + (micros == null ? 0 : micros));
                }
            }
        }
        for (String load : List.of(WITHOUT, WITH)) {
            report.add("drain, " + load, rounds.median(load), "jobs/s");
            report.add("drain, %s, CPU per job".formatted(load), rounds.median(load + " cpu"), "us");
        }
        String ratio = "drain, %s : %s".formatted(WITH, WITHOUT);
        report.add(ratio, rounds.median(WITH) / rounds.median(WITHOUT), "x");
        report.add(ratio + ", CPU per job", rounds.median(WITH + " cpu") / rounds.median(WITHOUT + " cpu"), "x");
        new RawSql(server.pool()).empty();
    }

    private static Race.Result drain(Server server, boolean inBatch) {
        new RawSql(server.pool()).empty();
        server.execute("TRUNCATE forge_job_batches, forge_job_batch_parts");
        server.execute("""
                WITH batch AS (
                    INSERT INTO forge_job_batches (id, name, closed_at) VALUES (gen_random_uuid(), 'drain', now()) RETURNING id),
                part AS (INSERT INTO forge_job_batch_parts (batch_id, jobs) SELECT id, %3$d FROM batch)
                INSERT INTO forge_jobs (id, name, payload, body_bytes, scheduled_at, batch_id)
                SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                        || '70008' || substr(md5(n::text), 1, 15))::uuid,
                       '%1$s', '{"orderId": 42}', 17, now(), %2$s
                FROM generate_series(1, %3$d) AS n, batch
                """.formatted(Ours.JOB, inBatch ? "batch.id" : "NULL", JOBS));
        if (!inBatch) {
            // Nothing tells nodes that a batch without jobs has ended: it would end with the next sweep.
            server.execute("TRUNCATE forge_job_batches, forge_job_batch_parts");
        }
        server.execute("VACUUM ANALYZE forge_jobs");
        server.execute("CHECKPOINT");
        var race = new Race(JOBS, server.cpu());
        try (var node = new Ours("one", server, new Handlers.Plain(race::ran))) {
            node.start();
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            server.awaitNone("forge_job_batches WHERE ended_at IS NULL");
            return race.finished();
        }
    }
}

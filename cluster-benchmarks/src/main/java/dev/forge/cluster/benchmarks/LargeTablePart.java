// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.job.operate.JobCountReports;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.operate.JobSearchReports;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.internal.job.row.JobQueueStore.Queues;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.Supplier;

/**
 * Compares the statements of a node on a table with ten million pending and ten million finished jobs with the same statements
 * on a table that is nearly empty.
 */
final class LargeTablePart implements Part {

    private static final int MILLIONS = Integer.getInteger("benchmarks.large-millions", 10);
    private static final int K = 50;
    private static final int TURNS = 100;
    private static final Duration RETENTION = Duration.ofDays(1);
    private static final List<String> NAMES = List.of(Ours.JOB);
    private static final List<String> CAPABILITIES = List.of("general", "");
    private static final List<String> COMPARED = List.of("search", "search from marks", "claim", "finish", "enqueue");
    private static final List<String> REPORTED = List.of(
            "counts by name", "oldest job", "list of 100 jobs", "count of failed jobs", "deletion of 1000 jobs");

    @Override
    public void run(Server server, Report report) throws IOException {
        var rounds = new Rounds();
        try (Server small = server.createDatabase("small_table");
                Server large = server.createDatabase("large_table");
                var one = new Ours("small", small, new Handlers.Plain(() -> {}), Ours.NO_WORKER);
                var other = new Ours("large", large, new Handlers.Plain(() -> {}), Ours.NO_WORKER)) {
            one.start();
            other.start();
            long start = System.nanoTime();
            fill(large);
            report.note("filled in %d s"
                    .formatted(Duration.ofNanos(System.nanoTime() - start).toSeconds()));
            new RawSql(small.pool()).insert(K * (TURNS + TURNS / 2));
            for (Server each : List.of(small, large)) {
                each.execute("VACUUM ANALYZE forge_jobs");
            }
            server.execute("CHECKPOINT");
            var smallTurns = new Turns(small, one);
            var largeTurns = new Turns(large, other);
            for (int turn = -TURNS / 4; turn < TURNS; turn++) {
                Rounds into = turn < 0 ? new Rounds() : rounds;
                smallTurns.take(into, "small ");
                largeTurns.take(into, "large ");
            }
            for (int round = 0; round < Rounds.COUNT; round++) {
                largeTurns.report(rounds);
            }
        }
        server.execute("DROP DATABASE large_table");
        server.execute("DROP DATABASE small_table");
        for (String what : COMPARED) {
            double small = rounds.median("small " + what);
            double large = rounds.median("large " + what);
            report.add(what + ", small table", small, "ms");
            report.add(what + ", large table", large, "ms");
            report.atMost(1.5, what + ", large table : small table", large / small, "x");
        }
        REPORTED.forEach(what -> report.add(what + ", large table", rounds.median(what), "ms"));
    }

    /** Inserts finished and pending jobs. Half of the pending jobs are due. Ids ascend with the creation time. */
    private static void fill(Server large) {
        for (int million = 0; million < MILLIONS; million++) {
            large.execute("""
                    INSERT INTO forge_jobs (id, name, payload, status, priority, scheduled_at, attempts, max_attempts,
                                            worker_id, claim_epoch, claimed_at, started_at, finished_at, created_at, body_bytes)
                    SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0')
                            || '70008' || substr(md5((n + %1$d)::text), 1, 15))::uuid,
                           'trivial', '{"orderId": 42}', 'completed', 50, t, 1, 10,
                           '00000000-0000-0000-0000-000000000001', 1, t, t, t, t, 17
                    FROM generate_series(1, 1000000) AS n, LATERAL (SELECT now() - interval '1 day 5 minutes'
                            + (n + %1$d) * interval '7 milliseconds' AS t) AS times
                    """.formatted(million * 1_000_000));
            large.execute("""
                    INSERT INTO forge_jobs (id, name, payload, body_bytes, scheduled_at)
                    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                            || '70008' || substr(md5(n::text), 1, 15))::uuid,
                           'trivial', '{"orderId": 42}', 17,
                           now() + (n - 500000) * interval '50 milliseconds'
                    FROM generate_series(1, 1000000) AS n
                    """);
        }
    }

    /** Measures the statements of a node in one database. */
    private static final class Turns {

        private final Server server;
        private final Ours node;
        private final UUID nodeId;
        private final JobQueueStore queues;
        private final JobClaimStore claims;
        private final JobFinishStore finishes;

        Turns(Server server, Ours node) {
            this.server = server;
            this.node = node;
            this.nodeId = node.id();
            this.queues = new JobQueueStore(server.schema(), server.pool());
            this.claims = new JobClaimStore(server.schema(), server.pool());
            this.finishes = new JobFinishStore(server.schema(), server.pool());
        }

        void take(Rounds rounds, String table) {
            Queues whole = timed(rounds, table + "search", () -> queues.queues(NAMES, CAPABILITIES));
            Head head = timed(
                            rounds,
                            table + "search from marks",
                            () -> queues.queues(NAMES, CAPABILITIES, whole.marks()))
                    .due()
                    .get(0);
            Mark mark = head.mark();
            var claiming = new Claiming(nodeId, K, Ours.SLOTS, 10, Duration.ofSeconds(60));
            List<Claimed> claimed = timed(rounds, table + "claim", () -> claims.claim(head.queue(), mark, claiming));
            if (claimed.size() != K) {
                throw new IllegalStateException("Wrong number of claimed jobs: " + claimed.size());
            }
            List<Finish> ends = claimed.stream()
                    .map(job -> Finish.completed(job.key(), null, 1L))
                    .toList();
            timed(rounds, table + "finish", () -> finishes.finish(nodeId, ends));
            timed(rounds, table + "enqueue", () -> {
                node.enqueueOne();
                return true;
            });
        }

        void report(Rounds rounds) {
            var reports = new JobReports(server.schema(), server.pool());
            var counts = new JobCountReports(server.schema(), server.pool());
            var search = new JobSearchReports(server.schema(), server.pool(), System::nanoTime);
            var keeping = new JobPurgeStore(server.schema(), server.pool());
            timed(rounds, REPORTED.get(0), reports::unfinished);
            timed(rounds, REPORTED.get(1), reports::oldestAge);
            timed(rounds, REPORTED.get(2), () -> search.page("list", JobFilter.all(), 100, null));
            timed(rounds, REPORTED.get(3), () -> counts.count(JobFilter.all().withStatuses(JobStatus.FAILED)));
            timed(
                    rounds,
                    REPORTED.get(4),
                    () -> keeping.purge(new JobPurgeStore.Expiry(RETENTION, RETENTION, ""), 1_000));
        }

        private static <T> T timed(Rounds rounds, String what, Supplier<T> call) {
            long start = System.nanoTime();
            T result = call.get();
            rounds.add(what, (System.nanoTime() - start) / 1e6);
            return result;
        }
    }
}

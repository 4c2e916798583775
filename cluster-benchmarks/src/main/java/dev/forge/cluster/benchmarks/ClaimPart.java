package dev.forge.cluster.benchmarks;

import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.Claiming;
import dev.forge.cluster.internal.store.JobStore.Head;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * How long a claim of 50 rows takes, alone and with obstacles in front of them: a million rows that may not be taken, and
 * the dead entries of finished jobs that an open snapshot keeps in the index. Looks and claims are the worker's own: a
 * look finds where a queue begins, and each claim goes on where the one before ended.
 */
final class ClaimPart implements Part {

    private static final int K = 50;
    private static final int CLAIMS = 60;
    private static final int LOOKS = 5;
    private static final int OBSTACLES = 1_000_000;
    private static final int FINISHED = 200_000;
    private static final List<String> NAMES = List.of(Ours.JOB, "paused");
    private static final List<String> CAPABILITIES = List.of("general", "");

    @Override
    public void run(Server server, Report report) throws SQLException {
        var rounds = new Rounds();
        var raw = new RawSql(server.pool());
        try (var node = new Ours("claimer", server, Ours.NO_WORKER, job -> {})) {
            node.start();
            var store = new JobStore(server.schema(), server.pool());
            raw.empty();
            measure(server, store, node, rounds, "free");

            raw.empty();
            obstruct(server);
            measure(server, store, node, rounds, "obstacles");
            server.execute("TRUNCATE forge_job_pauses");

            raw.fill(FINISHED);
            try (Connection holder = server.direct().getConnection();
                    Statement statement = holder.createStatement()) {
                holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                holder.setAutoCommit(false);
                statement.execute("SELECT FROM forge_jobs LIMIT 1");
                var race = new Race(FINISHED, server.cpu());
                rounds.add("drain", new OneNode(server).drain(race).perSecond());
                measure(server, store, node, rounds, "snapshot");
                holder.rollback();
            }
        }
        raw.empty();
        report.add("claim of 50, nothing in front", rounds.median("free claim"), "ms");
        report.add("claim of 50, a million unclaimable in front", rounds.median("obstacles claim"), "ms");
        report.atMost(2, "unclaimable : nothing", rounds.median("obstacles claim") / rounds.median("free claim"), "x");
        report.add("claim of 50, snapshot open over 200,000 finished", rounds.median("snapshot claim"), "ms");
        report.atMost(2, "snapshot : nothing", rounds.median("snapshot claim") / rounds.median("free claim"), "x");
        report.add("look, nothing in front", rounds.median("free look"), "ms");
        report.add("look, a million unclaimable in front", rounds.median("obstacles look"), "ms");
        report.add("look, snapshot open over 200,000 finished", rounds.median("snapshot look"), "ms");
        report.add("drain of 200,000 with the snapshot open", rounds.median("drain"), "jobs/s");
    }

    /** Of other names, for other capabilities, for later, and paused; half of them more urgent than what can be claimed. */
    private static void obstruct(Server server) {
        server.execute("INSERT INTO forge_job_pauses (name) VALUES ('paused')");
        server.execute("""
                INSERT INTO forge_jobs (id, name, payload, priority, worker_capability, scheduled_at)
                SELECT gen_random_uuid(),
                       CASE n %% 4 WHEN 0 THEN 'other' WHEN 1 THEN 'paused' ELSE 'trivial' END,
                       '{"orderId": 42}',
                       CASE WHEN n %% 8 < 4 THEN 50 ELSE 90 END,
                       CASE WHEN n %% 4 = 2 THEN 'gpu' END,
                       now() + CASE WHEN n %% 4 = 3 THEN interval '1 day' ELSE interval '-1 hour' END
                               + n * interval '1 microsecond'
                FROM generate_series(1, %d) AS n
                """.formatted(OBSTACLES));
        server.execute("VACUUM ANALYZE forge_jobs");
    }

    private static void measure(Server server, JobStore store, Ours node, Rounds rounds, String name) {
        var raw = new RawSql(server.pool());
        for (int round = 0; round < Rounds.COUNT; round++) {
            raw.insert(K * CLAIMS);
            server.execute("ANALYZE forge_jobs");
            server.execute("CHECKPOINT");
            List<Double> looks = new ArrayList<>();
            Head head = null;
            for (int i = 0; i < LOOKS; i++) {
                long start = System.nanoTime();
                List<Head> due = store.queues(NAMES, CAPABILITIES).due();
                looks.add((System.nanoTime() - start) / 1e6);
                head = due.get(0);
            }
            if (head == null || !head.queue().name().equals(Ours.JOB)) {
                throw new IllegalStateException("not the queue that was expected: " + head);
            }
            rounds.add(name + " look", Rounds.percentile(looks, 50));
            rounds.add(name + " claim", claims(store, node, head));
        }
    }

    private static double claims(JobStore store, Ours node, Head head) {
        List<Double> claims = new ArrayList<>();
        Instant mark = head.scheduledAt();
        for (int i = 0; i < CLAIMS; i++) {
            var claiming = new Claiming(node.id(), K, Ours.SLOTS, Duration.ofSeconds(60));
            long start = System.nanoTime();
            List<Claimed> claimed = store.claim(head.queue(), mark, claiming);
            claims.add((System.nanoTime() - start) / 1e6);
            if (claimed.size() != K) {
                throw new IllegalStateException("claimed " + claimed.size());
            }
            mark = claimed.get(K - 1).scheduledAt();
        }
        return Rounds.percentile(claims, 50);
    }
}

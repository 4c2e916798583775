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
import java.util.UUID;

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
        Runnable more = () -> raw.insert(K * CLAIMS);
        try (var node = new Ours("claimer", server, Ours.NO_WORKER, job -> {})) {
            node.start();
            var claimer = new Claimer(server, new JobStore(server.schema(), server.pool()), node.id());
            raw.empty();
            claimer.measure(new Rounds(), "warm-up", more);
            raw.empty();
            claimer.measure(rounds, "free", more);

            raw.empty();
            obstruct(server);
            claimer.measure(rounds, "obstacles", more);
            server.execute("TRUNCATE forge_job_pauses");

            raw.fill(FINISHED);
            finishUnderSnapshot(server, rounds, "snapshot", () -> claimer.measure(rounds, "snapshot", more));

            raw.empty();
            insertAtOnce(server, FINISHED, "now()");
            finishUnderSnapshot(
                    server,
                    rounds,
                    "one moment",
                    () -> claimer.measure(
                            rounds,
                            "one moment",
                            () -> insertAtOnce(server, K * CLAIMS, "(SELECT max(scheduled_at) FROM forge_jobs)")));

            raw.empty();
            claimer.measure(rounds, "free", more);
            raw.empty();
        }
        report.add("claim of 50, nothing in front", rounds.median("free claim"), "ms");
        compare(report, rounds, "a million unclaimable in front", "obstacles");
        compare(report, rounds, "snapshot open over 200,000 finished", "snapshot");
        compare(report, rounds, "snapshot, all due at the same moment", "one moment");
        report.add("look, nothing in front", rounds.median("free look"), "ms");
        report.add("look, a million unclaimable in front", rounds.median("obstacles look"), "ms");
        report.add("look, snapshot open over 200,000 finished", rounds.median("snapshot look"), "ms");
        report.add("drain of 200,000 with the snapshot open", rounds.median("snapshot drain"), "jobs/s");
        report.add("drain of 200,000 due at the same moment", rounds.median("one moment drain"), "jobs/s");
    }

    private static void compare(Report report, Rounds rounds, String what, String name) {
        report.add("claim of 50, " + what, rounds.median(name + " claim"), "ms");
        report.atMost(2, what + " : nothing", rounds.median(name + " claim") / rounds.median("free claim"), "x");
    }

    /** What is enqueued in one transaction is due at the same moment: no mark tells these jobs apart. */
    private static void insertAtOnce(Server server, int jobs, String due) {
        server.execute("""
                INSERT INTO forge_jobs (id, name, payload, scheduled_at)
                SELECT gen_random_uuid(), 'trivial', '{"orderId": 42}', %s FROM generate_series(1, %d)
                """.formatted(due, jobs));
    }

    private static void finishUnderSnapshot(Server server, Rounds rounds, String name, Runnable then)
            throws SQLException {
        try (Connection holder = server.direct().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs LIMIT 1");
            var race = new Race(FINISHED, server.cpu());
            rounds.add(name + " drain", new OneNode(server).drain(race).perSecond());
            then.run();
            holder.rollback();
        }
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

    /** Looks and claims as a worker does. */
    private record Claimer(Server server, JobStore store, UUID node) {

        void measure(Rounds rounds, String name, Runnable insert) {
            for (int round = 0; round < Rounds.COUNT; round++) {
                insert.run();
                server.execute("ANALYZE forge_jobs");
                server.execute("CHECKPOINT");
                List<Double> looks = new ArrayList<>();
                List<Head> due = List.of();
                for (int i = 0; i < LOOKS; i++) {
                    long start = System.nanoTime();
                    due = store.queues(NAMES, CAPABILITIES).due();
                    looks.add((System.nanoTime() - start) / 1e6);
                }
                if (due.size() != 1 || !due.get(0).queue().name().equals(Ours.JOB)) {
                    throw new IllegalStateException("not the queue that was expected: " + due);
                }
                rounds.add(name + " look", Rounds.percentile(looks, 50));
                rounds.add(name + " claim", claims(due.get(0)));
            }
        }

        private double claims(Head head) {
            List<Double> claims = new ArrayList<>();
            Instant mark = head.scheduledAt();
            for (int i = 0; i < CLAIMS; i++) {
                var claiming = new Claiming(node, K, Ours.SLOTS, Duration.ofSeconds(60));
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
}

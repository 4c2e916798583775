// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.OneNode;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.internal.job.row.JobQueueStore.Queues;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.internal.job.row.Queue;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Measures a claim of 50 jobs, without and with obstacles in front of them: a million jobs that cannot be claimed, and dead
 * index entries of finished jobs that an open snapshot retains. Queue searches and claims use the statements of the worker: a
 * search finds where a queue begins, and each claim continues where the previous one ended.
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
    public void run(Server server, Report report) throws SQLException, IOException {
        var rounds = new Rounds();
        var raw = new RawSql(server.pool());
        Runnable more = () -> raw.insert(K * CLAIMS);
        Place obstructed = Place.in(server);
        // A separate database, because a snapshot retains dead rows only in its own database.
        try (Server unobstructed = server.createDatabase("unobstructed")) {
            Place free = Place.in(unobstructed);
            raw.empty();
            measure(server, new Rounds(), "warm-up", free, obstructed, more);

            raw.empty();
            obstruct(server);
            measure(server, rounds, "obstacles", free, obstructed, more);
            server.execute("TRUNCATE forge_job_pauses");

            raw.fill(FINISHED);
            finishUnderSnapshot(
                    server, rounds, "snapshot", () -> measure(server, rounds, "snapshot", free, obstructed, more));

            raw.empty();
            insertAtOnce(server, FINISHED, "now()");
            Runnable moreAtOnce = () -> insertAtOnce(server, K * CLAIMS, "(SELECT max(scheduled_at) FROM forge_jobs)");
            finishUnderSnapshot(
                    server,
                    rounds,
                    "one moment",
                    () -> measure(server, rounds, "one moment", free, obstructed, moreAtOnce));
            raw.empty();
        }
        server.execute("DELETE FROM forge_nodes WHERE id = '%s'".formatted(obstructed.node));
        report.add("claim of 50, nothing in front", rounds.median("free claim"), "ms");
        compare(report, rounds, "a million unclaimable jobs in front", "obstacles");
        compare(report, rounds, "open snapshot over 200,000 finished jobs", "snapshot");
        compare(report, rounds, "open snapshot, all jobs due at the same time", "one moment");
        report.add("queue search, nothing in front", rounds.median("free look"), "ms");
        report.add("queue search, a million unclaimable jobs in front", rounds.median("obstacles look"), "ms");
        report.add("queue search, open snapshot over 200,000 finished jobs", rounds.median("snapshot look"), "ms");
        report.add("queue search from marks, the same snapshot", rounds.median("snapshot marked look"), "ms");
        report.add("drain of 200,000 jobs with the snapshot open", rounds.median("snapshot drain"), "jobs/s");
        report.add("drain of 200,000 jobs due at the same time", rounds.median("one moment drain"), "jobs/s");
    }

    private static void compare(Report report, Rounds rounds, String what, String name) {
        report.add("claim of 50, " + what, rounds.median(name + " claim"), "ms");
        report.atMost(2, what + " : nothing in front", rounds.median(name + " ratio"), "x");
    }

    /** Inserts jobs that are all due at the same time. As for all jobs, ids ascend with the time of the insertion. */
    private static void insertAtOnce(Server server, int jobs, String due) {
        server.execute("""
                INSERT INTO forge_jobs (id, name, payload, scheduled_at)
                SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                        || '70008' || substr(md5(n::text), 1, 15))::uuid,
                       'trivial', '{"orderId": 42}', %s
                FROM generate_series(1, %d) AS n
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
            rounds.add(
                    name + " drain", new OneNode(server, FINISHED).drain(race).perSecond());
            then.run();
            holder.rollback();
        }
    }

    /**
     * Inserts jobs with another name, another capability or a later time, and paused jobs. Half of them have a higher priority
     * than the jobs that can be claimed.
     */
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

    private static void measure(
            Server server, Rounds rounds, String name, Place free, Place obstructed, Runnable insert) {
        for (int round = 0; round < Rounds.COUNT; round++) {
            free.rows.fill(K * CLAIMS);
            insert.run();
            server.execute("ANALYZE forge_jobs");
            server.execute("CHECKPOINT");
            var freeTurn = new Turn(free);
            var obstructedTurn = new Turn(obstructed);
            // Alternates between the databases, so that a busy moment of the machine affects both.
            for (int i = 0; i < LOOKS; i++) {
                freeTurn.look();
                obstructedTurn.look();
            }
            for (int i = 0; i < CLAIMS; i++) {
                freeTurn.claim();
                obstructedTurn.claim();
            }
            rounds.add("free look", Rounds.percentile(freeTurn.looks, 50));
            rounds.add(name + " look", Rounds.percentile(obstructedTurn.looks, 50));
            rounds.add(name + " marked look", Rounds.percentile(obstructedTurn.markedLooks, 50));
            double freeClaim = Rounds.percentile(freeTurn.claims, 50);
            double obstructedClaim = Rounds.percentile(obstructedTurn.claims, 50);
            rounds.add("free claim", freeClaim);
            rounds.add(name + " claim", obstructedClaim);
            rounds.add(name + " ratio", obstructedClaim / freeClaim);
        }
    }

    /** A database, and the node that claims jobs in it. */
    private record Place(JobQueueStore queues, JobClaimStore claims, RawSql rows, UUID node) {

        static Place in(Server server) {
            Schema schema = server.schema();
            DataSource source = server.pool();
            UUID node = UUID.randomUUID();
            JdbcClient.create(source).sql("""
                    INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                    VALUES (?, 'claimer', 'claimer', 'host', '{worker}', 'active', '1.0', now() + interval '1 day', now() + interval '1 day')
                    """).param(node).update();
            return new Place(
                    new JobQueueStore(schema, source), new JobClaimStore(schema, source), new RawSql(source), node);
        }
    }

    /** Measures queue searches of a worker, and claims that each continue where the previous one ended. */
    private static final class Turn {

        final List<Double> looks = new ArrayList<>();
        final List<Double> markedLooks = new ArrayList<>();
        final List<Double> claims = new ArrayList<>();
        private final Place place;
        private Queue queue = Queue.ungrouped("", "", 0);
        private Mark mark = Mark.UNMARKED;

        Turn(Place place) {
            this.place = place;
        }

        void look() {
            long start = System.nanoTime();
            Queues whole = place.queues.queues(NAMES, CAPABILITIES);
            long marking = System.nanoTime();
            List<Head> due =
                    place.queues.queues(NAMES, CAPABILITIES, whole.marks()).due();
            looks.add((marking - start) / 1e6);
            markedLooks.add((System.nanoTime() - marking) / 1e6);
            if (!due.equals(whole.due())
                    || due.size() != 1
                    || !due.get(0).queue().name().equals(Ours.JOB)) {
                throw new IllegalStateException("Unexpected queues: " + due);
            }
            queue = due.get(0).queue();
            mark = due.get(0).mark();
        }

        void claim() {
            var claiming = new Claiming(place.node, K, Ours.SLOTS, 10, Duration.ofSeconds(60));
            long start = System.nanoTime();
            List<Claimed> claimed = place.claims.claim(queue, mark, claiming);
            claims.add((System.nanoTime() - start) / 1e6);
            if (claimed.size() != K) {
                throw new IllegalStateException("Wrong number of claimed jobs: " + claimed.size());
            }
            mark = claimed.get(K - 1).mark();
        }
    }
}

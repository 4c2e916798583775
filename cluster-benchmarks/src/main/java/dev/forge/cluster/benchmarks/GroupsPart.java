// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Pause;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.job.operate.JobWaitReports;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turn;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turns;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Measures jobs with groups and limits: throughput with few and many groups, claims and starts beside a group with a million jobs,
 * and how evenly groups of different lengths are served.
 */
final class GroupsPart implements Part {

    /** A smaller percentage makes a short run, whose figures mean nothing. */
    private static final int PERCENT = Integer.getInteger("benchmarks.groups-percent", 100);

    private static final int JOBS = 400 * PERCENT;
    private static final int HOT = 10_000 * PERCENT;
    private static final int COLD_GROUPS = 100;
    private static final int K = 50;
    private static final int CLAIMS = Math.max(10, 2 * PERCENT);
    private static final int STARTS = Math.max(10, 2 * PERCENT);
    private static final int PER_GROUP = Math.max(10, 2 * PERCENT);
    private static final int TIMES_LONGER = 1_000;

    /** The duration of a job that keeps its slot busy. */
    private static final int BUSY_MILLIS = 5;

    private static final String NEW_GROUP = "new-";

    /** A load of groups, each of which may run so many jobs at the same time; without groups there is no limit. */
    private record Load(String name, int groups, int limit) {}

    private static final Load WITHOUT = new Load("no groups", 0, 0);
    private static final List<Load> LOADS = List.of(
            WITHOUT,
            new Load("100 groups, limit 2", 100, 2),
            new Load("20,000 groups, limit 1", 200 * PERCENT, 1),
            new Load("10 groups, limit 2", 10, 2));

    @Override
    public void run(Server server, Report report) throws IOException, InterruptedException {
        drain(server, report);
        claim(server, report);
        share(server, report);
        start(server, report);
        limit(server, 0);
        new RawSql(server.pool()).empty();
    }

    // Throughput --------------------------------------------------------------------------------------------

    private static void drain(Server server, Report report) {
        var rounds = new Rounds();
        for (int round = -1; round < Rounds.COUNT; round++) {
            for (Load load : LOADS) {
                double perSecond = drain(server, load);
                if (round >= 0) {
                    rounds.add(load.name, perSecond);
                }
            }
        }
        for (Load load : LOADS) {
            report.add("drain, " + load.name, rounds.median(load.name), "jobs/s");
        }
        for (Load load : LOADS) {
            if (load.groups > 0) {
                report.add(
                        "drain, %s : %s".formatted(load.name, WITHOUT.name),
                        rounds.median(load.name) / rounds.median(WITHOUT.name),
                        "x");
            }
        }
    }

    private static double drain(Server server, Load load) {
        new RawSql(server.pool()).empty();
        insert(server, JOBS, load.groups == 0 ? "NULL" : "'g' || n %% %d".formatted(load.groups));
        limit(server, load.limit);
        server.execute("VACUUM ANALYZE forge_jobs");
        server.execute("CHECKPOINT");
        var race = new Race(JOBS, server.cpu());
        try (var node = new Ours("one", server, new Handlers.Plain(race::ran))) {
            node.start();
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            return race.finished().perSecond();
        }
    }

    /** @param group an expression over the number {@code n} of the job */
    private static void insert(Server server, int jobs, String group) {
        server.execute("""
                INSERT INTO forge_jobs (id, name, payload, body_bytes, scheduled_at, job_group)
                SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                        || '70008' || substr(md5(n::text), 1, 15))::uuid,
                       '%s', '{"orderId": 42}', 17, now(), %s
                FROM generate_series(1, %d) AS n
                """.formatted(Ours.JOB, group, jobs));
    }

    /** Limits the jobs of each group, as an operator would; 0: not at all. */
    private static void limit(Server server, int limit) {
        server.execute("DELETE FROM forge_job_limits");
        if (limit > 0) {
            server.execute("INSERT INTO forge_job_limits (name, overridden, group_concurrency) VALUES ('%s', true, %d)"
                    .formatted(Ours.JOB, limit));
        }
    }

    // Claims ------------------------------------------------------------------------------------------------

    private static void claim(Server server, Report report) throws IOException {
        var free = new ArrayList<Double>();
        var beside = new ArrayList<Double>();
        var counts = new ArrayList<Double>();
        try (Server cold = server.createDatabase("cold_groups");
                Server hot = server.createDatabase("hot_group")) {
            for (Server each : List.of(cold, hot)) {
                insert(each, K * CLAIMS * 2, "'g' || n %% %d".formatted(COLD_GROUPS));
                limit(each, 2);
            }
            // Its name makes it the first of all groups.
            insert(hot, HOT, "'a'");
            for (Server each : List.of(cold, hot)) {
                each.execute("VACUUM ANALYZE forge_jobs");
            }
            server.execute("CHECKPOINT");
            var coldTurns = new Claimer(cold);
            var hotTurns = new Claimer(hot);
            for (int i = -CLAIMS / 4; i < CLAIMS; i++) {
                double one = coldTurns.claim();
                double other = hotTurns.claim();
                if (i >= 0) {
                    free.add(one);
                    beside.add(other);
                }
            }
            for (int round = 0; round < Rounds.COUNT; round++) {
                long start = System.nanoTime();
                new JobWaitReports(hot.schema(), hot.pool()).limitedNames(Map.of());
                counts.add((System.nanoTime() - start) / 1e6);
            }
        }
        server.execute("DROP DATABASE hot_group");
        server.execute("DROP DATABASE cold_groups");
        for (int percent : List.of(50, 99)) {
            double one = Rounds.percentile(free, percent);
            double other = Rounds.percentile(beside, percent);
            report.add("claim of 50 in 100 groups, p%d".formatted(percent), one, "ms");
            report.add("claim of 50, beside a group with %,d jobs, p%d".formatted(HOT, percent), other, "ms");
            report.add("claim, with the long group : without, p%d".formatted(percent), other / one, "x");
        }
        report.add("count of waiting jobs, beside the long group", Rounds.percentile(counts, 50), "ms");
    }

    /** Claims jobs in one database, and ends them before the next claim. */
    private static final class Claimer {

        private static final Queue QUEUE = new Queue(Ours.JOB, "", 50, true);

        private final UUID node = UUID.randomUUID();
        private final JobClaimStore claims;
        private final JobFinishStore finishes;
        private Turn next = new Turn(Ours.JOB, List.of(Ours.JOB), "", 0, List.of());

        Claimer(Server server) {
            this.claims = new JobClaimStore(server.schema(), server.pool());
            this.finishes = new JobFinishStore(server.schema(), server.pool());
            server.execute("""
                    INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                    VALUES ('%s', 'claimer', 'claimer', 'host', '{worker}', 'active', '1.0', now() + interval '1 day',
                            now() + interval '1 day')
                    """.formatted(node));
        }

        /** Returns the duration of the claim in milliseconds. */
        double claim() {
            var claiming = new Claiming(node, K, Ours.SLOTS, 10, Duration.ofSeconds(60));
            long start = System.nanoTime();
            Turns turns = claims.claimInTurns(QUEUE, Mark.UNMARKED, next, claiming);
            double millis = (System.nanoTime() - start) / 1e6;
            if (turns.jobs().size() != K) {
                throw new IllegalStateException(
                        "Wrong number of claimed jobs: " + turns.jobs().size());
            }
            finishes.finish(
                    node,
                    turns.jobs().stream()
                            .map(job -> new Finish(
                                    job.key(), JobStatus.COMPLETED, null, null, 0, 0, null, null, null, 1L, false))
                            .toList());
            next = new Turn(Ours.JOB, List.of(Ours.JOB), turns.group(), turns.credit(), List.of());
            return millis;
        }
    }

    // Shares and starts -------------------------------------------------------------------------------------

    /** Handles the jobs of groups. */
    public static final class Grouped {

        private final Consumer<String> work;

        Grouped(Consumer<String> work) {
            this.work = work;
        }

        @ClusterJob(name = Ours.JOB)
        public void run(Ours.Trivial job, JobContext context) {
            work.accept(String.valueOf(context.group()));
        }
    }

    private static void share(Server server, Report report) throws InterruptedException {
        new RawSql(server.pool()).empty();
        limit(server, 0);
        insert(server, PER_GROUP * 2 * (COLD_GROUPS - 1), "'g' || n %% %d".formatted(COLD_GROUPS - 1));
        insert(server, PER_GROUP * 2 * TIMES_LONGER, "'a'");
        server.execute("VACUUM ANALYZE forge_jobs");
        Map<String, AtomicLong> runs = new ConcurrentHashMap<>();
        // Measured while all groups have jobs left.
        var measured = new CountDownLatch(PER_GROUP * COLD_GROUPS);
        try (var node = new Ours("one", server, new Grouped(group -> {
            if (measured.getCount() > 0) {
                runs.computeIfAbsent(group, g -> new AtomicLong()).incrementAndGet();
                measured.countDown();
            }
        }))) {
            node.start();
            measured.await();
        }
        List<Double> shares = runs.values().stream()
                .map(count -> count.get() / (double) PER_GROUP)
                .sorted()
                .toList();
        report.add("groups that were served", (double) runs.size(), "");
        report.atLeast(0.9, "smallest share of a group : equal share", shares.get(0), "x");
        report.atMost(1.1, "largest share of a group : equal share", shares.get(shares.size() - 1), "x");
        AtomicLong longest = runs.get("a");
        report.add(
                "share of the group that is 1,000 times longer : equal share",
                longest == null ? 0 : longest.get() / (double) PER_GROUP,
                "x");
    }

    private static void start(Server server, Report report) throws InterruptedException {
        var rounds = new Rounds();
        for (int round = 0; round < Rounds.COUNT; round++) {
            addStarts(server, rounds, "backlog in 100 groups", 0);
            addStarts(server, rounds, "the same, and a long group", HOT);
        }
        for (String backlog : List.of("backlog in 100 groups", "the same, and a long group")) {
            for (int percent : List.of(50, 99)) {
                report.add(
                        "start in a new group, %s, p%d".formatted(backlog, percent),
                        rounds.median(backlog + percent),
                        "ms");
            }
        }
        report.add(
                "start in a new group, with the long group : without, p99",
                rounds.median("the same, and a long group99") / rounds.median("backlog in 100 groups99"),
                "x");
    }

    private static void addStarts(Server server, Rounds rounds, String backlog, int hot) throws InterruptedException {
        List<Double> millis = starts(server, hot);
        rounds.add(backlog + 50, Rounds.percentile(millis, 50));
        rounds.add(backlog + 99, Rounds.percentile(millis, 99));
    }

    /** Returns how long jobs of new groups wait while all slots are busy with jobs of other groups. */
    private static List<Double> starts(Server server, int hot) throws InterruptedException {
        new RawSql(server.pool()).empty();
        limit(server, 2);
        // The jobs must last for the time that the starts take.
        int busy = STARTS * 60 / BUSY_MILLIS * Ours.SLOTS * 2;
        insert(server, busy, "'g' || n %% %d".formatted(COLD_GROUPS));
        if (hot > 0) {
            insert(server, hot, "'a'");
        }
        server.execute("VACUUM ANALYZE forge_jobs");
        var started = new SynchronousQueue<Long>();
        List<Double> millis = new ArrayList<>();
        try (var node = new Ours("one", server, new Grouped(group -> {
            if (group.startsWith(NEW_GROUP)) {
                put(started, System.nanoTime());
            } else {
                Pause.millis(BUSY_MILLIS);
            }
        }))) {
            node.start();
            for (int i = -STARTS / 10; i < STARTS; i++) {
                Pause.millis(20 + ThreadLocalRandom.current().nextInt(30));
                long called = System.nanoTime();
                node.jobs().enqueue(new Ours.Trivial(42), JobOptions.defaults().withGroup(NEW_GROUP + i));
                Long began = started.poll(60, TimeUnit.SECONDS);
                if (began == null) {
                    throw new IllegalStateException("Job of a new group was not started within 60 s");
                }
                if (i >= 0) {
                    millis.add((began - called) / 1e6);
                }
            }
            if (server.number("SELECT count(*) FROM forge_jobs WHERE status = 'pending'") == 0) {
                throw new IllegalStateException("The backlog was too short");
            }
        }
        return millis;
    }

    private static void put(SynchronousQueue<Long> started, long now) {
        try {
            started.put(now);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

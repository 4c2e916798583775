// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.ratelimit.RateLimits;
import dev.forge.cluster.internal.ratelimit.SharedBuckets;
import dev.forge.cluster.ratelimit.RateLimit;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.springframework.jdbc.core.JdbcTemplate;

/** Compares strict checks on one node with a bare UPDATE by key in a table that is unlogged, like that of the buckets. */
final class RateLimitPart implements Part {

    private static final RateLimit LIMIT = RateLimit.of(1_000, Duration.ofSeconds(1));
    private static final int CALLERS = Server.POOL;
    private static final int KEYS = 1_000;
    private static final Duration TURN = Duration.ofSeconds(1);
    private static final double MOST_MILLIS = 2;
    private static final double LEAST_A_SECOND = 3_000;

    @Override
    public void run(Server server, Report report) throws Exception {
        server.execute(
                "CREATE UNLOGGED TABLE ceiling (key text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50)");
        server.execute("INSERT INTO ceiling SELECT 'limit[user:' || n || ']', 0 FROM generate_series(0, %d) n"
                .formatted(KEYS));
        var jdbc = new JdbcTemplate(server.pool());
        var connections = new ControlConnections(server.direct(), Pooler.NONE, 1, Duration.ofSeconds(2));
        try (var buckets = new SharedBuckets(server.schema(), connections)) {
            var limits =
                    new RateLimits(new RateLimits.Settings(true, RateLimits.Loss.DENY, KEYS), buckets, rejected -> {});
            IntConsumer check = key -> limits.tryAcquire("limit", "user:" + key, LIMIT);
            IntConsumer update =
                    key -> jdbc.update("UPDATE ceiling SET n = n + 1 WHERE key = ?", "limit[user:" + key + "]");
            var rounds = new Rounds();
            for (int round = 0; round < Rounds.COUNT + 1; round++) {
                // The first round warms up the JIT compiler.
                var into = round == 0 ? new Rounds() : rounds;
                measure(into, "check, one caller", 1, 1, check);
                measure(into, "UPDATE, one caller", 1, 1, update);
                measure(into, "check, one bucket", CALLERS, 1, check);
                measure(into, "UPDATE, one row", CALLERS, 1, update);
                measure(into, "check, many buckets", CALLERS, KEYS, check);
                measure(into, "UPDATE, many rows", CALLERS, KEYS, update);
            }
            report.atMost(MOST_MILLIS, "check, one caller, p50", rounds.median("check, one caller p50"), "ms");
            report.add("bare UPDATE, one caller, p50", rounds.median("UPDATE, one caller p50"), "ms");
            report.atMost(
                    MOST_MILLIS,
                    "check, %d callers on one bucket, p50".formatted(CALLERS),
                    rounds.median("check, one bucket p50"),
                    "ms");
            report.atLeast(
                    LEAST_A_SECOND,
                    "checks, %d callers on one bucket".formatted(CALLERS),
                    rounds.median("check, one bucket rate"),
                    "/s");
            report.add("bare UPDATEs of one row", rounds.median("UPDATE, one row rate"), "/s");
            report.atLeast(
                    LEAST_A_SECOND,
                    "checks, %d callers on %d buckets".formatted(CALLERS, KEYS),
                    rounds.median("check, many buckets rate"),
                    "/s");
            report.add("bare UPDATEs of %d rows".formatted(KEYS), rounds.median("UPDATE, many rows rate"), "/s");
        } finally {
            server.execute("DROP TABLE ceiling");
            server.execute("TRUNCATE forge_rate_limits");
        }
    }

    private static void measure(Rounds rounds, String name, int callers, int keys, IntConsumer call) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(callers);
        try {
            long end = System.nanoTime() + TURN.toNanos();
            Callable<long[]> caller = () -> {
                var taken = LongStream.builder();
                for (int i = 0; System.nanoTime() < end; i++) {
                    long begin = System.nanoTime();
                    call.accept((i * 31 + (int) Thread.currentThread().getId() * 97) % keys);
                    taken.add(System.nanoTime() - begin);
                }
                return taken.build().toArray();
            };
            var all = LongStream.builder();
            for (var future : threads.invokeAll(
                    IntStream.range(0, callers).mapToObj(i -> caller).toList())) {
                Arrays.stream(future.get()).forEach(all::add);
            }
            long[] sorted = all.build().sorted().toArray();
            rounds.add(name + " p50", (double) sorted[sorted.length / 2] / 1e6);
            rounds.add(name + " rate", sorted.length * (double) TimeUnit.SECONDS.toNanos(1) / (double) TURN.toNanos());
        } finally {
            threads.shutdown();
        }
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.TableReads;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.PurgedPage;
import dev.forge.cluster.internal.ratelimit.RateLimits.Loss;
import dev.forge.cluster.internal.ratelimit.RateLimits.Settings;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.ratelimit.RateLimiterBackend;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
class RateLimitTests {

    private static final RateLimit HUNDRED_A_MINUTE = RateLimit.of(100, Duration.ofMinutes(1));
    private static final int MANY = 100_000;
    private static final int SCENARIO_ATTEMPTS = 10;

    private final TestDatabase database;
    private final Schema schema;
    private final List<SharedBuckets> open = new ArrayList<>();
    private final List<String> rejected = new CopyOnWriteArrayList<>();
    private final AtomicInteger undecided = new AtomicInteger();

    RateLimitTests(TestDatabase database) {
        this.database = database;
        this.schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    @AfterEach
    void close() {
        open.forEach(SharedBuckets::close);
    }

    private SharedBuckets buckets(DataSource source) {
        var buckets = new SharedBuckets(schema, new ControlConnections(source, Pooler.NONE, 1, Duration.ofSeconds(2)));
        open.add(buckets);
        return buckets;
    }

    private RateLimiter node(boolean strict) {
        return new RateLimits(
                new Settings(strict, Loss.LOCAL, MANY),
                observed(buckets(database.newSessions()), () -> true),
                rejected::add);
    }

    /** Returns a backend that counts calls which the reachable database did not decide, except calls of the locked bucket. */
    private RateLimiterBackend observed(SharedBuckets shared, BooleanSupplier reachable) {
        return (bucket, limit, permits) -> {
            try {
                return shared.tryAcquire(bucket, limit, permits);
            } catch (RuntimeException e) {
                if (reachable.getAsBoolean() && (SharedBuckets.isLost(e) || !bucket.equals("locked"))) {
                    undecided.incrementAndGet();
                }
                throw e;
            }
        };
    }

    private interface Scenario {
        void run() throws Exception;
    }

    /** Repeats a scenario that fails because the machine was paused for longer than a call waits for the database. */
    private void undisturbed(Scenario scenario) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                scenario.run();
                return;
            } catch (Exception | AssertionError e) {
                if (undecided.getAndSet(0) == 0 || attempt == SCENARIO_ATTEMPTS) {
                    throw e;
                }
            }
            open.forEach(SharedBuckets::close);
            open.clear();
            rejected.clear();
            database.clear();
        }
    }

    /** Ages all buckets by that time. */
    private void pass(Duration time) {
        database.jdbc()
                .sql("UPDATE forge_rate_limits SET updated_at = updated_at - :millis * interval '1 millisecond'")
                .param("millis", time.toMillis())
                .update();
    }

    private boolean waitsForLock(String statement) {
        return database.jdbc()
                .sql("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ?)")
                .param(statement)
                .query(Boolean.class)
                .single();
    }

    private double spent(String bucket) {
        return database.jdbc()
                .sql("SELECT spent FROM forge_rate_limits WHERE bucket = ?")
                .param(bucket)
                .query(Double.class)
                .single();
    }

    private record Burst(long admitted, double seconds) {
        /** Returns how many calls a limit of a hundred a minute may admit in that time. */
        long most() {
            return 100 + (long) Math.ceil(seconds * 100 / 60);
        }
    }

    @Test
    void key_that_looks_like_a_hash_does_not_reach_the_bucket_of_the_hashed_key() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            RateLimit once = RateLimit.of(1, Duration.ofHours(1));
            String victim = "user:" + "v".repeat(300);
            assertThat(node.tryAcquire("quote", victim, once).allowed()).isTrue();
            String bucket = database.jdbc()
                    .sql("SELECT bucket FROM forge_rate_limits")
                    .query(String.class)
                    .single();
            String hashed = bucket.substring("quote[".length(), bucket.length() - 1);
            assertThat(hashed).startsWith("sha256:");
            assertThat(node.tryAcquire("quote", hashed, once).allowed())
                    .as("separate bucket")
                    .isTrue();
            assertThat(node.tryAcquire("quote", victim, once).allowed()).isFalse();
        });
    }

    /** Makes four hundred calls on 24 threads, spread evenly over the nodes. */
    private static Burst burst(List<RateLimiter> nodes, String key) throws Exception {
        var threads = Executors.newFixedThreadPool(24);
        var calls = new ArrayList<Callable<RateLimitDecision>>();
        for (int i = 0; i < 400; i++) {
            RateLimiter node = nodes.get(i % nodes.size());
            calls.add(() -> key == null
                    ? node.tryAcquire("quote", HUNDRED_A_MINUTE)
                    : node.tryAcquire("quote", key, HUNDRED_A_MINUTE));
        }
        try {
            long begin = System.nanoTime();
            long admitted = 0;
            for (Future<RateLimitDecision> call : threads.invokeAll(calls)) {
                admitted += call.get().allowed() ? 1 : 0;
            }
            return new Burst(admitted, (System.nanoTime() - begin) / 1e9);
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void burst_on_three_nodes_is_admitted_as_on_one() throws Exception {
        undisturbed(() -> {
            Burst global = burst(List.of(node(false), node(false), node(false)), null);
            assertThat(global.admitted).isBetween(100L, global.most());
            assertThat(rejected).hasSize((int) (400 - global.admitted)).containsOnly("quote");
            Burst user = burst(List.of(node(true), node(true), node(true)), "user:ann");
            assertThat(user.admitted).isBetween(100L, user.most());
        });
    }

    @Test
    void keys_are_counted_by_each_node_in_hybrid_mode() throws Exception {
        Burst user = burst(List.of(node(false), node(false), node(false)), "user:ann");
        assertThat(user.admitted).isBetween(300L, 3 * user.most());
        assertThat(database.jdbc()
                        .sql("SELECT count(*) FROM forge_rate_limits")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void denied_call_consumes_no_token_and_is_admitted_after_its_retry_time() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            RateLimit slow = RateLimit.of(3, Duration.ofHours(1));
            assertThat(node.tryAcquire("slow", slow, 3).allowed()).isTrue();
            double before = spent("slow");
            for (int i = 0; i < 50; i++) {
                assertThat(node.tryAcquire("slow", slow).allowed()).isFalse();
            }
            assertThat(spent("slow")).isLessThanOrEqualTo(before);
            for (int i = 0; i < 20; i++) {
                RateLimitDecision denied = node.tryAcquire("slow", slow);
                assertThat(denied.allowed()).isFalse();
                assertThat(denied.retryAfter()).isBetween(Duration.ofMinutes(19), Duration.ofMinutes(20));
                pass(denied.retryAfter().minusSeconds(30));
                assertThat(node.tryAcquire("slow", slow).allowed()).isFalse();
                pass(Duration.ofSeconds(30));
                assertThat(node.tryAcquire("slow", slow).allowed()).isTrue();
            }
        });
    }

    @Test
    void changed_limit_takes_effect_at_once_on_all_nodes() throws Exception {
        undisturbed(() -> {
            RateLimiter one = node(true);
            RateLimiter two = node(true);
            // A limit per day: no token is refilled between two calls.
            RateLimit daily = RateLimit.of(100, Duration.ofDays(1));
            assertThat(one.tryAcquire("quote", daily, 100).allowed()).isTrue();
            RateLimit more = daily.withBurst(150);
            assertThat(two.tryAcquire("quote", more, 50).allowed()).isTrue();
            assertThat(one.tryAcquire("quote", daily).allowed()).isFalse();
            RateLimit less = RateLimit.of(10, Duration.ofDays(1));
            assertThat(two.tryAcquire("quote", less).retryAfter())
                    .isBetween(Duration.ofHours(2), Duration.ofMinutes(144));
        });
    }

    @Test
    void smaller_limit_of_the_same_bucket_returns_no_tokens_to_callers_with_a_larger_one() throws Exception {
        undisturbed(() -> {
            RateLimit large = RateLimit.of(100, Duration.ofDays(1));
            RateLimit small = RateLimit.of(10, Duration.ofDays(1));
            for (RateLimiter node : List.of(node(true), node(false))) {
                int admitted = 0;
                for (int i = 0; i < 500; i++) {
                    admitted += node.tryAcquire("mixed", "key", large).allowed() ? 1 : 0;
                    admitted += i % 50 == 49
                                    && node.tryAcquire("mixed", "key", small).allowed()
                            ? 1
                            : 0;
                }
                assertThat(admitted).isBetween(100, 101);
            }
        });
    }

    @Test
    void bucket_whose_row_is_locked_is_the_only_one_that_waits() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            RateLimit once = RateLimit.of(1, Duration.ofDays(1));
            assertThat(node.tryAcquire("locked", once).allowed()).isTrue();
            assertThat(node.tryAcquire("other", once).allowed()).isTrue();
            var threads = Executors.newFixedThreadPool(2);
            try (Connection connection = database.dataSource().getConnection();
                    Statement statement = connection.createStatement()) {
                connection.setAutoCommit(false);
                statement.execute("SELECT FROM forge_rate_limits WHERE bucket = 'locked' FOR UPDATE");
                Future<RateLimitDecision> locked = threads.submit(() -> node.tryAcquire("locked", once));
                // The locked bucket waits in its own statement. In a common statement it would fail the other buckets
                // after a second, and its own statement after another one: as long as callers of other buckets wait.
                await().until(() -> waitsForLock("INSERT INTO%forge_rate_limits%") || locked.isDone());
                // Each call is decided by the table: this node alone would admit the second one.
                do {
                    assertThat(node.tryAcquire("other", once).allowed()).isFalse();
                    assertThat(node.tryAcquire("third", "key", once.withBurst(1_000))
                                    .allowed())
                            .isTrue();
                } while (!locked.isDone());
                assertThat(locked.get().allowed()).isFalse();
                assertThat(spent("third[key]")).isPositive();
            } finally {
                threads.shutdownNow();
            }
        });
    }

    @Test
    void callers_of_a_locked_bucket_do_not_delay_callers_of_other_buckets() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            RateLimit limit = RateLimit.of(1, Duration.ofDays(1)).withBurst(1_000);
            assertThat(node.tryAcquire("locked", limit).allowed()).isTrue();
            var threads = Executors.newFixedThreadPool(4);
            var asks = new AtomicInteger();
            var stop = new AtomicBoolean();
            try (Connection connection = database.dataSource().getConnection();
                    Statement statement = connection.createStatement()) {
                connection.setAutoCommit(false);
                statement.execute("SELECT FROM forge_rate_limits WHERE bucket = 'locked' FOR UPDATE");
                for (int i = 0; i < 4; i++) {
                    threads.execute(() -> {
                        while (!stop.get()) {
                            node.tryAcquire("locked", limit);
                            asks.incrementAndGet();
                        }
                    });
                }
                // The first statement has timed out.
                await().until(() -> asks.get() > 0);
                for (int i = 0; i < 20; i++) {
                    assertThat(node.tryAcquire("other", limit).allowed()).isTrue();
                }
                // All of them were decided by the table. A call that has waited for too long is decided by its node.
                assertThat(spent("other")).isGreaterThan(19.9);
            } finally {
                stop.set(true);
                threads.shutdownNow();
            }
        });
    }

    @Test
    void permits_of_one_call_are_all_granted_or_none_and_calls_with_different_permits_do_not_mix() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            var threads = Executors.newFixedThreadPool(16);
            RateLimit limit = RateLimit.of(1_000, Duration.ofDays(1));
            var calls = new ArrayList<Callable<Integer>>();
            for (int i = 0; i < 400; i++) {
                int permits = 1 + i % 7;
                calls.add(() -> node.tryAcquire("mixed", limit, permits).allowed() ? permits : 0);
            }
            int admitted = 0;
            for (Future<Integer> call : threads.invokeAll(calls)) {
                admitted += call.get();
            }
            threads.shutdownNow();
            assertThat(admitted).isBetween(994, 1_000);
            assertThat(spent("mixed")).isBetween(admitted - 0.5, (double) admitted);
        });
    }

    @Test
    void buckets_that_share_a_statement_get_their_own_decisions() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            var threads = Executors.newFixedThreadPool(16);
            RateLimit daily = RateLimit.of(2, Duration.ofDays(1));
            var calls = new ArrayList<Callable<Boolean>>();
            for (int i = 0; i < 600; i++) {
                String key = "user:" + i % 200;
                calls.add(() -> node.tryAcquire("daily", key, daily).allowed());
            }
            int admitted = 0;
            for (Future<Boolean> call : threads.invokeAll(calls)) {
                admitted += call.get() ? 1 : 0;
            }
            threads.shutdownNow();
            assertThat(admitted).isEqualTo(400);
        });
    }

    @Test
    void clock_that_was_set_back_does_not_freeze_a_bucket() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            assertThat(node.tryAcquire("quote", HUNDRED_A_MINUTE, 100).allowed())
                    .isTrue();
            pass(Duration.ofHours(-5));
            assertThat(node.tryAcquire("quote", HUNDRED_A_MINUTE).allowed()).isFalse();
            pass(Duration.ofSeconds(1));
            assertThat(node.tryAcquire("quote", HUNDRED_A_MINUTE).allowed()).isTrue();
        });
    }

    @Test
    void purge_reads_one_page_and_continues_after_it() {
        database.jdbc().sql("""
                INSERT INTO forge_rate_limits (bucket, spent, capacity, per_second, granted, updated_at)
                SELECT to_char(n, 'FM00000'), 1, 1, CASE WHEN n = 150 THEN 1 ELSE 1e-9 END, 1, now() - interval '1 hour'
                FROM generate_series(1, 20000) AS n
                """).update();
        database.jdbc().sql("VACUUM ANALYZE forge_rate_limits").update();
        var pages = new ArrayList<PurgedPage>();
        long read = TableReads.during(database, "forge_rate_limits", source -> {
            var store = new RateLimitStore(schema, source);
            pages.add(store.purge(Duration.ofMinutes(5), "", 100));
            pages.add(store.purge(Duration.ofMinutes(5), "00100", 100));
        });
        assertThat(pages).containsExactly(new PurgedPage(100, "00100", 0), new PurgedPage(100, "00200", 1));
        assertThat(read).isLessThan(1_000);
    }

    @Test
    void full_and_idle_bucket_is_deleted_and_no_other() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            var store = new RateLimitStore(schema, database.dataSource());
            node.tryAcquire("minute", HUNDRED_A_MINUTE);
            node.tryAcquire("year", RateLimit.of(1, Duration.ofDays(366)));
            assertThat(store.purge(Duration.ofMinutes(5), "", 10).deleted()).isZero();
            pass(Duration.ofMinutes(6));
            assertThat(store.purge(Duration.ofMinutes(5), "", 10).deleted()).isEqualTo(1);
            assertThat(database.jdbc()
                            .sql("SELECT bucket FROM forge_rate_limits")
                            .query(String.class)
                            .list())
                    .containsExactly("year");
        });
    }

    @Test
    void key_of_a_caller_never_selects_another_bucket() throws Exception {
        undisturbed(() -> {
            RateLimiter node = node(true);
            RateLimit once = RateLimit.of(1, Duration.ofDays(1));
            List<String> keys = List.of(
                    "",
                    "a",
                    "a]",
                    "[a",
                    "a\0",
                    "a\0b",
                    "\ud800",
                    "\udbff",
                    "x".repeat(10_000),
                    "x".repeat(10_001),
                    "ä");
            for (String key : keys) {
                assertThat(node.tryAcquire("limit", key, once).allowed())
                        .as(key)
                        .isTrue();
                assertThat(node.tryAcquire("limit", key, once).allowed())
                        .as(key)
                        .isFalse();
            }
            assertThat(node.tryAcquire("limit", once).allowed()).isTrue();
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> node.tryAcquire("limit[a", once))
                    .withMessageContaining("limit[a");
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> node.tryAcquire("limit", once, 2))
                    .withMessage("RateLimiter.tryAcquire: permits (2) must be between 1 and the limit's burst (1)");
        });
    }

    @ParameterizedTest
    @EnumSource(Loss.class)
    void policy_decides_without_the_database_and_one_line_is_logged(Loss policy) throws Exception {
        undisturbed(() -> {
            URI server = URI.create(database.url().substring("jdbc:".length()));
            var log = new ListAppender<ILoggingEvent>();
            Logger logger = (Logger) LoggerFactory.getLogger(RateLimits.class);
            log.start();
            logger.setLevel(Level.INFO);
            logger.addAppender(log);
            try (TcpProxy proxy = TcpProxy.to(server.getHost(), server.getPort())) {
                var source = new DriverManagerDataSource(
                        database.url().replace(":" + server.getPort(), ":" + proxy.port()),
                        database.username(),
                        database.password());
                SharedBuckets shared = buckets(source);
                var reachable = new AtomicBoolean(true);
                RateLimiterBackend observed = observed(shared, reachable::get);
                var asked = new AtomicInteger();
                // Only the test moves the clock.
                var now = new AtomicLong(1);
                var node = new RateLimits(
                        new Settings(true, policy, MANY),
                        (bucket, asking, permits) -> {
                            asked.incrementAndGet();
                            return observed.tryAcquire(bucket, asking, permits);
                        },
                        rejected::add,
                        now::get);
                RateLimit limit = RateLimit.of(2, Duration.ofDays(1));
                assertThat(node.tryAcquire("quote", limit, 2).allowed()).isTrue();
                assertThat(node.tryAcquire("quote", limit).allowed()).isFalse();

                reachable.set(false);
                proxy.cut();
                asked.set(0);
                List<Boolean> admitted = new ArrayList<>();
                for (int i = 0; i < 200; i++) {
                    admitted.add(node.tryAcquire("quote", limit).allowed());
                }
                assertThat(admitted.stream().filter(each -> each).count()).isEqualTo(policy == Loss.ALLOW ? 200 : 0);
                // A bucket that was not used before is full if the node decides alone.
                assertThat(node.tryAcquire("new", limit).allowed()).isEqualTo(policy != Loss.DENY);
                // One call waited for the database, not all two hundred.
                assertThat(asked).hasValue(1);
                proxy.heal();

                await().until(() -> {
                    now.addAndGet(Duration.ofSeconds(1).toNanos());
                    node.tryAcquire("other", limit);
                    return log.list.stream().anyMatch(event -> event.getLevel() == Level.INFO);
                });
                reachable.set(true);
                assertThat(node.tryAcquire("quote", limit).allowed()).isFalse();
                assertThat(log.list)
                        .extracting(ILoggingEvent::getLevel, ILoggingEvent::getFormattedMessage)
                        .satisfiesExactly(
                                warned -> assertThat(warned.toList().toString())
                                        .contains(
                                                "WARN",
                                                "on-database-loss ("
                                                        + policy.name().toLowerCase(Locale.ROOT)),
                                back -> assertThat(back.toList().toString()).contains("reachable again"));
            } finally {
                logger.detachAppender(log);
                logger.setLevel(null);
            }
        });
    }
}

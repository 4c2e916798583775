// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.state;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.TableReads;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

@ClusterPostgres
class StateTests {

    private static final Duration HOUR = Duration.ofHours(1);
    private static final int THREADS = 8;
    private static final int ROUNDS = 200;

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    StateTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    record Login(String user, int attempt) {}

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    private ClusterStateStore states(Member member) {
        // Without the lock timeout of control connections: callers wait for each other's rows, and the machine may
        // pause.
        return states(member, database.dataSource());
    }

    private ClusterStateStore states(Member member, DataSource application) {
        return new DefaultClusterStateStore(
                member.node(),
                new StateStore(cluster.schema, application, member.control().shared()),
                new TestJobs.Json(),
                1_000);
    }

    private long rows() {
        return jdbc.sql("SELECT count(*) FROM forge_state").query(Long.class).single();
    }

    private void expire(String key) {
        assertThat(jdbc.sql("UPDATE forge_state SET expires_at = clock_timestamp() WHERE state_key = ?")
                        .param(key)
                        .update())
                .isEqualTo(1);
    }

    /** Runs a call on many threads at once, half of them on either store, and returns the results. */
    private static <T> List<T> race(
            ExecutorService threads, ClusterStateStore one, ClusterStateStore two, Question<T> question)
            throws Exception {
        var start = new CyclicBarrier(THREADS);
        var answers = new ArrayList<Future<T>>();
        for (int i = 0; i < THREADS; i++) {
            int thread = i;
            Callable<T> asking = () -> {
                start.await();
                return question.ask(thread % 2 == 0 ? one : two, thread);
            };
            answers.add(threads.submit(asking));
        }
        var all = new ArrayList<T>();
        for (Future<T> answer : answers) {
            all.add(answer.get());
        }
        return all;
    }

    private interface Question<T> {
        T ask(ClusterStateStore states, int thread);
    }

    @Test
    void value_that_one_node_puts_is_taken_once_by_another() {
        ClusterStateStore one = states(cluster.start("one", s -> s));
        ClusterStateStore two = states(cluster.start("two", s -> s));
        var login = new Login("Zoë \\u0041", 1);
        assertThat(one.putOnce("login", login, HOUR)).isTrue();
        assertThat(two.putOnce("login", new Login("other", 2), HOUR)).isFalse();
        assertThat(two.find("login", Login.class)).contains(login);
        assertThat(two.takeOnce("login", Login.class)).contains(login);
        assertThat(one.takeOnce("login", Login.class)).isEmpty();
        assertThat(one.find("login", Login.class)).isEmpty();
        assertThat(one.putOnce("login", login, HOUR)).as("taken key is free").isTrue();
    }

    @Test
    void value_that_many_callers_on_two_nodes_take_goes_to_one() throws Exception {
        ClusterStateStore one = states(cluster.start("one", s -> s));
        ClusterStateStore two = states(cluster.start("two", s -> s));
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            for (int round = 0; round < ROUNDS; round++) {
                String key = "key " + round;
                assertThat(one.putOnce(key, round, HOUR)).isTrue();
                assertThat(race(threads, one, two, (states, thread) -> states.takeOnce(key, Integer.class)).stream()
                                .flatMap(Optional::stream))
                        .containsExactly(round);
            }
        } finally {
            threads.shutdownNow();
        }
        assertThat(rows()).isZero();
    }

    @Test
    void key_that_many_callers_put_at_once_has_the_value_of_the_one_that_succeeded() throws Exception {
        ClusterStateStore one = states(cluster.start("one", s -> s));
        ClusterStateStore two = states(cluster.start("two", s -> s));
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            for (int round = 0; round < ROUNDS; round++) {
                String key = "key " + round;
                if (round % 2 == 0) {
                    // The key has an expired value in even rounds, and is free in odd rounds.
                    assertThat(one.putOnce(key, -1, HOUR)).isTrue();
                    expire(key);
                }
                List<Boolean> put = race(threads, one, two, (states, thread) -> states.putOnce(key, thread, HOUR));
                assertThat(put).containsOnlyOnce(true);
                assertThat(two.takeOnce(key, Integer.class)).contains(put.indexOf(true));
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void pool_of_serializable_connections_without_auto_commit_makes_no_difference() throws Exception {
        var strict = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                connection.setAutoCommit(false);
                return connection;
            }
        };
        ClusterStateStore one = states(cluster.start("one", s -> s), strict);
        ClusterStateStore two = states(cluster.start("two", s -> s), strict);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            for (int round = 0; round < ROUNDS / 10; round++) {
                String key = "key " + round;
                assertThat(race(threads, one, two, (states, thread) -> states.putOnce(key, thread, HOUR)))
                        .containsOnlyOnce(true);
                assertThat(race(threads, one, two, (states, thread) -> states.takeOnce(key, Integer.class)).stream()
                                .flatMap(Optional::stream))
                        .hasSize(1);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void value_that_expired_by_database_time_is_absent_and_its_key_is_free() {
        ClusterStateStore states = states(cluster.start("one", s -> s));
        assertThat(states.putOnce("link", "first", Duration.ofMinutes(10))).isTrue();
        assertThat(jdbc.sql("""
                        SELECT expires_at - created_at BETWEEN interval '10 minutes' AND interval '601 seconds'
                            AND expires_at > clock_timestamp() + interval '9 minutes' FROM forge_state
                        """).query(Boolean.class).single()).isTrue();
        expire("link");
        assertThat(states.find("link", String.class)).isEmpty();
        assertThat(states.takeOnce("link", String.class)).isEmpty();
        assertThat(states.putOnce("link", "second", HOUR)).isTrue();
        assertThat(states.takeOnce("link", String.class)).contains("second");
    }

    @Test
    void rollback_of_the_caller_keeps_the_value_even_if_the_caller_has_the_only_connection() throws SQLException {
        Member one = cluster.start("one", s -> s);
        try (Connection only = database.dataSource().getConnection()) {
            var pool = new SingleConnectionDataSource(only, true);
            var lent = new AtomicBoolean();
            var application = new DelegatingDataSource(pool) {
                @Override
                public Connection getConnection() throws SQLException {
                    assertThat(lent.getAndSet(true))
                            .as("a pool that has one connection lends it twice")
                            .isFalse();
                    return super.getConnection();
                }
            };
            ClusterStateStore states = states(one, application);
            states(one).putOnce("taken", "value", HOUR);
            new TransactionTemplate(new JdbcTransactionManager(application)).executeWithoutResult(transaction -> {
                assertThat(states.takeOnce("taken", String.class)).contains("value");
                assertThat(states.putOnce("put", "value", HOUR)).isTrue();
                assertThat(rows()).as("rows before the end of the transaction").isEqualTo(1);
                TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                    @Override
                    public void afterCompletion(int status) {
                        states.putOnce("after", "value", HOUR);
                    }
                });
                transaction.setRollbackOnly();
            });
        }
        assertThat(states(one).takeOnce("after", String.class)).contains("value");
        assertThat(states(one).takeOnce("taken", String.class)).isEmpty();
        assertThat(states(one).takeOnce("put", String.class)).contains("value");
    }

    @Test
    void requests_served_while_the_node_leaves_still_put_and_take() {
        Member one = cluster.start("one", s -> s);
        ClusterStateStore states = states(one);
        one.stop();
        assertThat(states.putOnce("late", "value", HOUR)).isTrue();
        assertThat(states.takeOnce("late", String.class)).contains("value");
    }

    @Test
    void log_compactor_deletes_expired_values_and_no_others() {
        Member two = cluster.start("two", s -> TestNodes.withMode(s, NodeMode.WORKER));
        states(two).putOnce("live", "value", HOUR);
        jdbc.sql("""
                INSERT INTO forge_state (state_key, state_value, expires_at)
                SELECT 'old ' || n, '1', clock_timestamp() - interval '1 second' FROM generate_series(1, 10001) n
                """).update();
        two.node().cleanUp();
        assertThat(rows()).as("node two does not lead").isEqualTo(10_002);
        Member one = cluster.start("one", s -> s);
        await().until(() -> one.leadership().isLeader(Leadership.LOG_COMPACTOR));
        await().untilAsserted(() -> {
            one.node().cleanUp();
            assertThat(rows()).isEqualTo(1);
        });
        assertThat(states(two).find("live", String.class)).contains("value");
    }

    @Test
    void value_or_key_that_cannot_be_stored_is_rejected_with_the_reason() {
        ClusterStateStore states = states(cluster.start("one", s -> s));
        refused("state of 1 characters", () -> states.putOnce(" ", "value", HOUR));
        refused("501 characters: it must have 1 to 500", () -> states.putOnce("k".repeat(501), "value", HOUR));
        refused("NUL", () -> states.takeOnce("a\0b", String.class));
        refused("surrogate", () -> states.find("\uD800", String.class));
        refused("timeToLive (PT0S) must be between", () -> states.putOnce("key", "value", Duration.ZERO));
        refused("must be between", () -> states.putOnce("key", "value", Duration.ofNanos(1)));
        refused("must be between", () -> states.putOnce("key", "value", Duration.ofSeconds(Long.MAX_VALUE)));
        refused("max-payload-size is 1000", () -> states.putOnce("key", "v".repeat(1_000), HOUR));
        refused("NUL", () -> states.putOnce("key", "a\0b", HOUR));
        refused("reserved for logins", () -> states.putOnce("@oauth2/mine", "value", HOUR));
        refused("not as int", () -> states.takeOnce("key", int.class));
        assertThat(rows()).isZero();
        String longest = "\\u0000é".repeat(71);
        assertThat(states.putOnce(longest, "value", HOUR)).isTrue();
        assertThat(states.takeOnce(longest, String.class)).contains("value");
    }

    private static void refused(String reason, Runnable call) {
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(call::run)
                .withMessageContaining(reason);
    }

    @Test
    void value_that_is_taken_as_another_type_is_consumed() {
        ClusterStateStore states = states(cluster.start("one", s -> s));
        states.putOnce("key", "no number", HOUR);
        refused("cannot be read as java.lang.Integer", () -> states.takeOnce("key", Integer.class));
        assertThat(states.takeOnce("key", String.class)).isEmpty();
    }

    @Test
    void node_that_may_not_change_the_cluster_may_only_find() {
        Member observer = cluster.start("observer", s -> TestNodes.withMode(s, NodeMode.OBSERVER));
        ClusterStateStore states = states(observer);
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> states.putOnce("key", "value", HOUR));
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> states.takeOnce("key", String.class));
        assertThat(states.find("key", String.class)).isEmpty();
    }

    @Test
    void purge_reads_only_values_that_it_deletes() {
        jdbc.sql("""
                INSERT INTO forge_state (state_key, state_value, expires_at)
                SELECT n::text, '{}', now() + CASE WHEN n <= 100 THEN interval '-1 hour' ELSE interval '1 hour' END
                FROM generate_series(1, 20000) AS n
                """).update();
        jdbc.sql("VACUUM ANALYZE forge_state").update();
        long read = TableReads.during(
                database,
                "forge_state",
                source -> assertThat(new StateStore(cluster.schema, source, source).purge(1_000))
                        .isEqualTo(100));
        assertThat(read).isLessThan(1_000);
    }
}

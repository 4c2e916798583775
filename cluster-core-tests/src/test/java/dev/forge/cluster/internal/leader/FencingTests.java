// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipLost;
import dev.forge.cluster.leader.NotLeaderException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

@ClusterPostgres
class FencingTests {

    private static final String SCHEDULER = Leadership.SCHEDULER;

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    FencingTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    @Test
    void fencing_token_has_the_servers_timeline_above_the_term() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        long timeline = Long.parseLong(
                jdbc.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
                        .query(String.class)
                        .single(),
                16);
        long term = one.leadership().term(SCHEDULER).orElseThrow();
        long token = one.leadership().fencingToken(SCHEDULER).orElseThrow();
        assertThat(token).isEqualTo((timeline << 40) + term);
        Member two = cluster.start("two", TestNodes::steady);
        assertThat(two.leadership().fencingToken(SCHEDULER)).isEmpty();
        one.leadership().leave(SCHEDULER);
        await().until(() -> two.leadership().fencingToken(SCHEDULER).orElse(0) > token);
        assertThat(one.leadership().fencingToken(SCHEDULER)).isEmpty();
    }

    @Test
    void fenced_write_of_the_current_term_commits_and_one_of_an_older_term_does_not() {
        jdbc.sql("CREATE TABLE IF NOT EXISTS fenced (term bigint)").update();
        jdbc.sql("TRUNCATE fenced").update();
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        one.leadership()
                .fenced(
                        SCHEDULER,
                        () -> jdbc.sql("INSERT INTO fenced VALUES (1)").update());
        assertThatExceptionOfType(NotLeaderException.class)
                .isThrownBy(() -> one.leadership().fenced(SCHEDULER, () -> {
                    int rows = jdbc.sql("INSERT INTO fenced VALUES (2)").update();
                    // Another term has begun meanwhile, as if this node had been frozen here.
                    database.jdbc().sql("SELECT 1").query().listOfRows();
                    bumpTermElsewhere();
                    return rows;
                }));
        assertThat(jdbc.sql("SELECT term FROM fenced").query(Long.class).list()).containsExactly(1L);
    }

    private void bumpTermElsewhere() {
        var thread = new Thread(() -> new JdbcTemplateOf(database)
                .update("UPDATE forge_leaders SET current_term = current_term + 1 WHERE role = 'scheduler'"));
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Runs statements outside of the transaction of the calling thread. */
    private record JdbcTemplateOf(TestDatabase database) {
        void update(String sql) {
            database.jdbc().sql(sql).update();
        }
    }

    @Test
    void slow_fenced_write_delays_the_next_term_and_ends_no_session() throws Exception {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", TestNodes::steady);
        two.leadership().join("own");
        await().until(() -> two.leadership().isLeader("own"));
        long own = two.leadership().term("own").orElseThrow();
        long term = cluster.term(SCHEDULER);
        try (var fenced = database.dataSource().getConnection()) {
            fenced.setAutoCommit(false);
            var source = new SingleConnectionDataSource(fenced, true);
            assertThat(new LeaderStore(cluster.schema, source)
                            .fence(SCHEDULER, one.node().id(), term))
                    .isTrue();
            one.leadership().leave(SCHEDULER);
            // The election fails several times; the session keeps its other role.
            await().during(Duration.ofMillis(1_200)).until(() -> cluster.term(SCHEDULER) == term);
            fenced.rollback();
        }
        await().until(() -> two.leadership().isLeader(SCHEDULER));
        assertThat(two.leadership().term("own")).hasValue(own);
    }

    @Test
    void fenced_write_of_a_node_that_does_not_lead_is_not_begun() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        Member two = cluster.start("two", TestNodes::steady);
        assertThatExceptionOfType(NotLeaderException.class)
                .isThrownBy(() -> two.leadership().fenced(SCHEDULER, () -> {
                    throw new AssertionError("begun");
                }));
    }

    @Test
    void wait_for_a_fence_is_bounded_and_reported_until_the_fence_is_free() throws Exception {
        Member one = cluster.start("one", TestNodes::steady);
        one.leadership().join("reports");
        await().until(() -> one.leadership().isLeader("reports"));
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            var fenced = CompletableFuture.supplyAsync(() -> one.leadership().fenced("reports", () -> 1));
            assertThatExceptionOfType(ExecutionException.class)
                    .isThrownBy(() -> fenced.get(60, TimeUnit.SECONDS))
                    .withCauseInstanceOf(CannotAcquireLockException.class)
                    .withMessageContaining("Role reports");
            assertThat(one.node().fences().byRole()).containsOnlyKeys("reports");
            blocking.rollback();
        }
        assertThat(one.leadership().fenced("reports", () -> 2)).isEqualTo(2);
        assertThat(one.node().fences().byRole()).isEmpty();
    }

    @Test
    void node_that_lost_a_role_takes_no_fence() throws Exception {
        Member one = cluster.start("one", TestNodes::steady);
        one.leadership().join("reports");
        await().until(() -> one.leadership().isLeader("reports"));
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            assertThatExceptionOfType(NotLeaderException.class)
                    .isThrownBy(() -> one.leadership().fenced("reports", () -> {
                        // The row still has this node and its term.
                        one.node().elector().abandon("reports");
                        return 1;
                    }));
            assertThat(one.node().fences().byRole()).isEmpty();
            blocking.rollback();
        }
    }

    @Test
    void roles_whose_row_is_locked_delay_neither_renewals_nor_the_election_to_a_free_role() throws Exception {
        Member one = cluster.start(
                "one",
                s -> TestNodes.withLease(s, Duration.ofSeconds(20), Duration.ofSeconds(1), Duration.ofSeconds(8)));
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        long term = cluster.term(SCHEDULER);
        jdbc.sql("INSERT INTO forge_leaders (role) SELECT 'blocked ' || i FROM generate_series(1, 50) i")
                .update();
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role LIKE 'blocked%' FOR UPDATE");
            for (int i = 1; i <= 50; i++) {
                one.leadership().join("blocked " + i);
            }
            // A pass over all of these roles takes longer than a leadership lasts without a renewal.
            await().during(Duration.ofMillis(10_500))
                    .until(() -> !one.events().contains(new LeadershipLost(SCHEDULER, term)));
            one.leadership().join("free");
            await().until(() -> one.leadership().isLeader("free"));
            assertThat(one.leadership().term(SCHEDULER)).hasValue(term);
            blocking.rollback();
        }
    }

    @Test
    void role_whose_fence_stays_blocked_is_tried_again_after_two_seconds() throws Exception {
        Member one = cluster.start("one", TestNodes::steady);
        UUID self = one.node().id();
        var nanos = new AtomicLong();
        var store = new ElectionStore(cluster.schema, database.dataSource());
        var elector = new Elector(
                new Elector.Timing(
                        Duration.ofMillis(250), Duration.ofSeconds(5), Duration.ofSeconds(1), Duration.ofSeconds(3)),
                LeadershipBasis.LEASE,
                new Pace(nanos::get, RandomGenerator.getDefault()),
                one.node().fences(),
                event -> {});
        elector.join("reports");
        elector.compete(true);
        jdbc.sql("INSERT INTO forge_leaders (role) VALUES ('reports')").update();
        try (Connection blocking = database.dataSource().getConnection()) {
            blocking.setAutoCommit(false);
            blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'reports' FOR UPDATE");
            for (int attempt = 1; attempt <= 3; attempt++) {
                assertThat(one.node().fences().byRole()).isEmpty();
                elector.step(store, () -> {}, self);
            }
            assertThat(one.node().fences().byRole()).containsOnlyKeys("reports");
            blocking.rollback();
        }
        nanos.set(Duration.ofMillis(1_900).toNanos());
        elector.step(store, () -> {}, self);
        assertThat(elector.isLeader("reports")).isFalse();
        nanos.set(Duration.ofMillis(2_500).toNanos());
        elector.step(store, () -> {}, self);
        assertThat(elector.isLeader("reports")).isTrue();
    }

    @Test
    void fence_keeps_the_lock_timeout_of_the_surrounding_transaction() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        for (String timeout : List.of("0", "150ms", "7s")) {
            String afterwards = transaction.execute(status -> {
                jdbc.sql("SELECT set_config('lock_timeout', ?, true)")
                        .param(timeout)
                        .query()
                        .listOfRows();
                one.leadership().fenced(SCHEDULER, () -> 1);
                return jdbc.sql("SELECT current_setting('lock_timeout')")
                        .query(String.class)
                        .single();
            });
            assertThat(afterwards).isEqualTo(timeout);
        }
    }

    @Test
    void error_of_fenced_work_for_an_undeclared_role_says_how_to_declare_it() {
        Member one = cluster.start("one", TestNodes::steady);
        assertThatExceptionOfType(NotLeaderException.class)
                .isThrownBy(() -> one.leadership().fenced("import", () -> {}))
                .withMessage("role import: this node does not lead, and does not stand for election:"
                        + " put @LeaderRole(\"import\") on a bean, or call Leadership.join");
    }
}

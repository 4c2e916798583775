// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** The load that many nodes and many writers cause. */
@ClusterPostgres
class ScaleTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;

    ScaleTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    private void idleNodes(int count) throws InterruptedException {
        try (var cluster = new TestCluster(database)) {
            for (int i = 0; i < count; i++) {
                cluster.start("node-" + i, s -> s);
            }
            // Connections of the test close after each statement; the server takes a moment to notice.
            await().until(() -> database.sessions().size() <= 3 * count);
            int sessions = database.sessions().size();
            // Wait until every node knows the number of nodes.
            long settled = transactions();
            await().pollDelay(Duration.ofSeconds(5)).until(() -> transactions() > settled);
            long before = transactions();
            long start = System.nanoTime();
            await().pollDelay(Duration.ofSeconds(10)).until(() -> transactions() > before);
            double perNode = (transactions() - before) / ((System.nanoTime() - start) / 1e9) / count;
            System.out.printf(
                    "%d idle nodes: %.1f connections and %.1f statements per second each%n",
                    count, (double) sessions / count, perNode);
            assertThat(perNode).isLessThanOrEqualTo(15);
        }
    }

    /** Counts statements: each statement of an idle node is one transaction. */
    private long transactions() {
        jdbc.sql("SELECT pg_stat_clear_snapshot()").query().listOfRows();
        return jdbc.sql("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
                .query(Long.class)
                .single();
    }

    @Test
    void five_idle_nodes_send_a_few_statements_per_second() throws InterruptedException {
        idleNodes(5);
    }

    @Test
    @Tag("soak")
    void hundred_idle_nodes_send_few_statements() throws InterruptedException {
        idleNodes(100);
    }

    @Test
    void sixteen_fenced_writers_delay_neither_renewals_nor_elections() {
        handOverUnderLoad(2);
    }

    @Test
    @Tag("soak")
    void twenty_handovers_succeed_beside_sixteen_fenced_writers() {
        handOverUnderLoad(20);
    }

    /** Returns settings with which a term outlasts a pause of the machine. */
    private static NodeSettings steady(NodeSettings settings) {
        return TestNodes.withLease(settings, Duration.ofMinutes(1), Duration.ofSeconds(1), Duration.ofSeconds(30));
    }

    /** Simulates slow commits of a busy machine: each holds the fence for longer than a candidate waits at first. */
    @Test
    void slow_fenced_writes_in_flight_only_delay_the_next_term() {
        try (var cluster = new TestCluster(database)) {
            Member one = cluster.start("one", ScaleTests::steady);
            await().until(() -> one.leadership().isLeader(Leadership.SCHEDULER));
            Member two = cluster.start("two", ScaleTests::steady);
            UUID leader = one.node().id();
            var fences = new LeaderStore(cluster.schema, database.dataSource());
            var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
            var committed = new AtomicInteger();
            var threads = Executors.newFixedThreadPool(16);
            try {
                for (int i = 0; i < 16; i++) {
                    // Each at a different pace, so that they do not commit together.
                    double seconds = 0.3 + i * 0.007;
                    threads.execute(() -> {
                        while (one.leadership().isLeader(Leadership.SCHEDULER)) {
                            transaction.executeWithoutResult(status -> {
                                fences.fence(Leadership.SCHEDULER, leader, 1);
                                jdbc.sql("SELECT pg_sleep(?)")
                                        .param(seconds)
                                        .query()
                                        .listOfRows();
                            });
                            committed.incrementAndGet();
                        }
                    });
                }
                await().until(() -> committed.get() > 48);
                one.leadership().leave(Leadership.SCHEDULER);
                await().until(() -> two.leadership().isLeader(Leadership.SCHEDULER));
                assertThat(two.node().elector().isUndisputed(Leadership.SCHEDULER))
                        .isTrue();
                assertThat(two.node().fences().byRole()).isEmpty();
            } finally {
                threads.shutdown();
            }
        }
    }

    private void handOverUnderLoad(int rounds) {
        jdbc.sql("CREATE TABLE IF NOT EXISTS fenced_writes (term bigint)").update();
        jdbc.sql("TRUNCATE fenced_writes").update();
        try (var cluster = new TestCluster(database)) {
            Member one = cluster.start("one", s -> s);
            await().until(() -> one.leadership().isLeader(Leadership.SCHEDULER));
            Member two = cluster.start("two", s -> s);
            var stop = new AtomicBoolean();
            var threads = Executors.newFixedThreadPool(16);
            try {
                for (int i = 0; i < 16; i++) {
                    threads.execute(() -> {
                        while (!stop.get()) {
                            write(one);
                            write(two);
                        }
                    });
                }
                await().until(() -> jdbc.sql("SELECT count(*) FROM fenced_writes")
                                .query(Long.class)
                                .single()
                        > 500);
                var handovers = new ArrayList<Long>();
                for (int round = 0; round < rounds; round++) {
                    Member leader = one.leadership().isLeader(Leadership.SCHEDULER) ? one : two;
                    Member other = leader.equals(one) ? two : one;
                    long start = System.nanoTime();
                    leader.leadership().leave(Leadership.SCHEDULER);
                    await().pollInterval(Duration.ofMillis(2))
                            .until(() -> other.leadership().isLeader(Leadership.SCHEDULER));
                    handovers.add((System.nanoTime() - start) / 1_000_000);
                    leader.leadership().join(Leadership.SCHEDULER);
                }
                // Renewals run once a second: a delayed one shows as a longer time since the last renewal.
                var ages = new ArrayList<Long>();
                await().pollInterval(Duration.ofMillis(10))
                        .pollDelay(Duration.ZERO)
                        .during(Duration.ofSeconds(3))
                        .until(() -> ages.addAll(leaseAges()));
                System.out.printf(
                        "16 fenced writers: hand-over after %s ms; leases at most %d ms after their last renewal%n",
                        handovers, Collections.max(ages));
                // The default suite makes a few rounds and prints the times: the machine may be busy.
                if (rounds > 5) {
                    assertThat(Collections.max(ages)).isLessThanOrEqualTo(1_500);
                    assertThat(Collections.max(handovers)).isLessThanOrEqualTo(500);
                }
            } finally {
                stop.set(true);
                threads.shutdown();
            }
        }
    }

    /** Returns the milliseconds since the last renewal of each held role. */
    private List<Long> leaseAges() {
        return jdbc.sql("""
                SELECT (5000 - extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint
                FROM forge_leader_leases WHERE node_id IS NOT NULL
                """).query((row, n) -> row.getLong(1)).list();
    }

    private void write(Member member) {
        if (member.leadership().isLeader(Leadership.SCHEDULER)) {
            try {
                member.leadership()
                        .fenced(
                                Leadership.SCHEDULER,
                                () -> jdbc.sql("INSERT INTO fenced_writes VALUES (1)")
                                        .update());
            } catch (RuntimeException e) {
                // The handover happened in between.
            }
        }
    }
}

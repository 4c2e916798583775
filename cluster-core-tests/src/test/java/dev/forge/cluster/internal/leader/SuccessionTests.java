// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
class SuccessionTests {

    private static final String SCHEDULER = Leadership.SCHEDULER;

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    SuccessionTests(TestDatabase database) {
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

    private static Member leaderOf(Member a, Member b) {
        await().until(() -> a.leadership().isLeader(SCHEDULER) || b.leadership().isLeader(SCHEDULER));
        return a.leadership().isLeader(SCHEDULER) ? a : b;
    }

    private void terminateSessionOf(Member member) {
        jdbc.sql("""
                SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE node_id = ? AND role = 'scheduler'
                """).param(member.node().id()).query().listOfRows();
    }

    @Test
    void leader_whose_session_is_terminated_resigns_at_once_and_a_follower_takes_over() {
        Member one = cluster.start("one", TestNodes::steady);
        Member two = cluster.start("two", TestNodes::steady);
        Member leader = leaderOf(one, two);
        long term = cluster.term(SCHEDULER);
        terminateSessionOf(leader);
        await().until(() -> cluster.term(SCHEDULER) > term);
        // The node lost its session, but it is alive.
        await().until(() -> cluster.status(leader.node().identity().name()).equals("active"));
    }

    private TcpProxy network() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return TcpProxy.to(server.getHost(), server.getPort());
    }

    private DriverManagerDataSource through(TcpProxy network) {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return new DriverManagerDataSource(
                database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                database.username(),
                database.password());
    }

    private static NodeSettings lease(NodeSettings settings, Duration lease) {
        return TestNodes.withLease(settings, lease, Duration.ofMillis(500), Duration.ofSeconds(6));
    }

    private OffsetDateTime leaseUntil() {
        return jdbc.sql("SELECT lease_until FROM forge_leader_leases WHERE role = 'scheduler'")
                .query(OffsetDateTime.class)
                .single();
    }

    private OffsetDateTime disputedUntil() {
        return jdbc.sql("SELECT disputed_until FROM forge_leader_leases WHERE role = 'scheduler'")
                .query(OffsetDateTime.class)
                .single();
    }

    /** Ends the session of a leader that is cut off and does not notice this; returns the end of its lease. */
    private OffsetDateTime endSessionUnnoticed(Member leader, TcpProxy network) {
        // A leader has no session if it leads by its lease, because a session of an earlier test still has the lock.
        await().until(() -> jdbc.sql("SELECT backend_pid IS NOT NULL FROM forge_leader_leases WHERE role = 'scheduler'")
                .query(Boolean.class)
                .single());
        network.cut();
        OffsetDateTime lease = leaseUntil();
        terminateSessionOf(leader);
        return lease;
    }

    @Test
    void leader_that_is_cut_off_ends_its_leadership_before_another_node_leads() throws Exception {
        try (TcpProxy network = network()) {
            Member one = cluster.start("one", through(network), s -> lease(s, Duration.ofSeconds(10)));
            await().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> lease(s, Duration.ofSeconds(10)));
            long term = one.leadership().term(SCHEDULER).orElseThrow();
            network.cut();
            while (!two.leadership().isLeader(SCHEDULER)) {
                // The two nodes must never lead at the same time.
                boolean before = two.leadership().isLeader(SCHEDULER);
                assertThat(before && one.leadership().isLeader(SCHEDULER)).isFalse();
                LockSupport.parkNanos(100_000);
            }
            assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
            assertThat(two.leadership().term(SCHEDULER).orElseThrow()).isGreaterThan(term);
            network.heal();
            await().until(() -> cluster.status("one").equals("active"));
            assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
            one.stop();
        }
    }

    @Test
    void successor_is_undisputed_only_when_its_predecessor_has_stopped_leading() {
        try (TcpProxy network = network()) {
            // Without a liveness lock the node is declared dead only after fifteen seconds of silence.
            Member one = cluster.start(
                    "one", through(network), s -> lease(TestNodes.withoutLivenessLock(s), Duration.ofSeconds(10)));
            await().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> lease(s, Duration.ofSeconds(10)));
            OffsetDateTime leaseOfOne = endSessionUnnoticed(one, network);
            await().until(() -> two.leadership().isLeader(SCHEDULER));
            // The remaining time is rounded down to milliseconds.
            assertThat(disputedUntil()).isAfter(leaseOfOne.minusSeconds(1));
            // Unless this machine was too slow, node one still acts as leader.
            await().pollInterval(Duration.ofMillis(1)).until(() -> {
                boolean acts = two.node().elector().isUndisputed(SCHEDULER);
                assertThat(acts && one.leadership().isLeader(SCHEDULER)).isFalse();
                return acts;
            });
            network.heal();
            // After a release the successor need not wait.
            two.stop();
            await().until(() -> one.leadership().isLeader(SCHEDULER));
            assertThat(one.node().elector().isUndisputed(SCHEDULER)).isTrue();
            one.stop();
        }
    }

    @Test
    void death_of_the_predecessor_ends_the_dispute_of_its_successor() throws SQLException {
        try (TcpProxy network = network()) {
            Member one = cluster.start("one", through(network), s -> lease(s, Duration.ofHours(1)));
            await().until(() -> one.leadership().isLeader(SCHEDULER));
            Member two = cluster.start("two", s -> lease(s, Duration.ofSeconds(10)));
            try (Connection other = database.dataSource().getConnection();
                    Statement lock = other.createStatement()) {
                // Node one cannot be declared dead before its successor has begun to lead.
                other.setAutoCommit(false);
                lock.execute("SELECT FROM forge_nodes WHERE name = 'one' FOR UPDATE");
                OffsetDateTime leaseOfOne = endSessionUnnoticed(one, network);
                await().until(() -> two.leadership().isLeader(SCHEDULER));
                assertThat(disputedUntil()).isAfter(leaseOfOne.minusSeconds(1));
                assertThat(two.node().elector().isUndisputed(SCHEDULER)).isFalse();
                other.rollback();
            }
            await().until(() -> two.node().elector().isUndisputed(SCHEDULER));
            assertThat(cluster.status("one")).isEqualTo("dead");
            network.heal();
            await().until(() -> cluster.status("one").equals("active"));
            one.stop();
        }
    }
}

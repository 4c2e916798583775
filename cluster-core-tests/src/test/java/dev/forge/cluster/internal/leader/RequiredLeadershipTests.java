// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipLossAction;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

@ClusterPostgres
class RequiredLeadershipTests {

    private static final String SCHEDULER = Leadership.SCHEDULER;

    private final TestDatabase database;
    private TestCluster cluster;

    RequiredLeadershipTests(TestDatabase database) {
        this.database = database;
    }

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    private static NodeSettings mustLead(NodeSettings settings) {
        return TestNodes.withMode(
                TestNodes.withElectionEvery(
                        TestNodes.withLease(
                                settings, Duration.ofSeconds(5), Duration.ofMillis(500), Duration.ofSeconds(4)),
                        Duration.ofMillis(100)),
                NodeMode.LEADER);
    }

    @Test
    void node_of_mode_leader_is_not_ready_until_it_leads_again() {
        Member one = cluster.start("one", RequiredLeadershipTests::mustLead);
        Member two = cluster.start("two", TestNodes::steady);
        one.leadership().leave(SCHEDULER);
        await().until(() -> two.leadership().isLeader(SCHEDULER));
        one.leadership().join(SCHEDULER);
        await().until(() -> one.node().requiredLeadership().isUnready());
        assertThat(one.leadership().isLeader(SCHEDULER)).isFalse();
        two.stop();
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        await().until(() -> !one.node().requiredLeadership().isUnready());
    }

    @Test
    void node_of_mode_leader_exits_after_a_lost_leadership_if_configured() {
        var exits = new AtomicInteger();
        Member one = cluster.create("one", RequiredLeadershipTests::mustLead);
        one.node().requiredLeadership().onLost(LeadershipLossAction.EXIT, exits::incrementAndGet);
        try {
            one.node().start();
            assertThat(exits).hasValue(0);
            one.leadership().leave(SCHEDULER);
            await().until(() -> exits.get() == 1);
            assertThat(one.node().requiredLeadership().isUnready()).isFalse();
        } finally {
            one.stop();
        }
    }

    @Test
    void node_of_mode_leader_fails_to_start_while_another_node_leads() {
        Member one = cluster.start("one", TestNodes::steady);
        await().until(() -> one.leadership().isLeader(SCHEDULER));
        Member boss = cluster.create(
                "boss", s -> TestNodes.withLease(TestNodes.withMode(s, NodeMode.LEADER), Duration.ofMillis(700)));
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> boss.node().start())
                .withMessageContaining("forge.cluster.node.mode (leader)")
                .withMessageEndingWith("node 'one' (%s) leads", one.node().id());
        assertThat(cluster.status("boss")).isEqualTo("absent");
        boss.stop();
    }
}

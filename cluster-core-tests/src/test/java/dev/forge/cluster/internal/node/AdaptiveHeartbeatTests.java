// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

@ClusterPostgres
class AdaptiveHeartbeatTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    AdaptiveHeartbeatTests(TestDatabase database) {
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

    private static NodeSettings adaptiveWorker(NodeSettings settings) {
        return TestNodes.withHeartbeat(
                TestNodes.withRoles(TestNodes.withMode(settings, NodeMode.WORKER), NodeRole.WORKER, NodeRole.FUNCTION),
                TestNodes.adaptiveHeartbeat(
                        Duration.ofMillis(50), Duration.ofSeconds(30), Duration.ofSeconds(1), Duration.ofSeconds(2)));
    }

    /** Returns the seconds of silence after which a node is dead, as declared by the node. */
    private double declared(String name) {
        return jdbc.sql("SELECT extract(epoch FROM dead_at - last_heartbeat) FROM forge_nodes WHERE name = ?")
                .param(name)
                .query(Double.class)
                .single();
    }

    @Test
    void adaptive_interval_grows_while_nothing_changes_and_falls_back_when_something_does() throws Exception {
        Member one = cluster.start("one", AdaptiveHeartbeatTests::adaptiveWorker);
        await().until(() -> declared("one") > 8);
        // On another thread: the interval grows again before a slow start has ended.
        var start = CompletableFuture.runAsync(() -> cluster.start("two", s -> s));
        await().until(() -> declared("one") < 3);
        start.get(1, TimeUnit.MINUTES);
        assertThat(one.events()).noneMatch(NodeDied.class::isInstance);
    }

    @Test
    void node_with_a_job_does_not_stretch_its_heartbeat() throws Exception {
        var release = new CountDownLatch(1);
        var jobs = new TestJobs(database.dataSource())
                .on(
                        "long",
                        context ->
                                assertThat(release.await(5, TimeUnit.MINUTES)).isTrue());
        Member one = cluster.start("one", jobs, AdaptiveHeartbeatTests::adaptiveWorker);
        await().until(() -> declared("one") > 8);
        UUID job = one.jobs().enqueueNamed("long", null).id();
        try {
            await().until(() -> declared("one") < 3);
            // The pause stays short while the job runs. An idle node would have doubled it several times by now.
            await().during(Duration.ofSeconds(1)).until(() -> declared("one") < 3);
        } finally {
            release.countDown();
        }
        one.ended(job);
        await().until(() -> declared("one") > 8);
    }

    @Test
    void leader_does_not_stretch_its_heartbeat() {
        Member one = cluster.start(
                "one", s -> TestNodes.withHeartbeat(s, adaptiveWorker(s).heartbeat()));
        await().until(() -> one.leadership().isLeader("scheduler"));
        await().until(() -> declared("one") < 3);
        await().during(Duration.ofSeconds(3)).until(() -> declared("one") < 3);
    }

    @Test
    @Tag("soak")
    void nodes_with_one_heartbeat_a_minute_survive_when_a_fourth_node_joins() {
        UnaryOperator<NodeSettings> adaptive = s -> TestNodes.withHeartbeat(
                s,
                TestNodes.adaptiveHeartbeat(
                        Duration.ofSeconds(5), Duration.ofSeconds(60), Duration.ofSeconds(10), Duration.ofSeconds(15)));
        Member one = cluster.start("one", adaptive);
        // A leader does not slow down: one node leads all roles, so that the other two slow down.
        await().until(() -> Stream.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                .allMatch(one.leadership()::isLeader));
        List<Member> three = List.of(one, cluster.start("two", adaptive), cluster.start("three", adaptive));
        String slow = "SELECT count(*) FROM forge_nodes WHERE dead_at - last_heartbeat > interval '170 seconds'";
        await().atMost(Duration.ofMinutes(3))
                .until(() -> jdbc.sql(slow).query(Long.class).single() == 2);
        cluster.start("four", adaptive);
        await().until(() -> jdbc.sql("SELECT max(extract(epoch FROM dead_at - last_heartbeat)) FROM forge_nodes")
                        .query(Double.class)
                        .single()
                < 40);
        await().during(Duration.ofSeconds(20))
                .atMost(Duration.ofSeconds(25))
                .until(() -> jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                                .query(Long.class)
                                .single()
                        == 4);
        long deaths = three.stream()
                .flatMap(member -> member.events().stream())
                .filter(NodeDied.class::isInstance)
                .count();
        System.out.printf("one beat a minute and a fourth node: nodes declared dead: %d%n", deaths);
        assertThat(deaths).isZero();
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.TestNode;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import shop.Mailing.Ship;

@ClusterTest(nodes = 3)
class SeveralNodesTests {

    private static final String SHIPPED = "SELECT customer FROM orders WHERE status = 'shipped'";

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Test
    void another_node_leads_when_the_leader_is_killed() {
        TestNode leader = cluster.leader(Leadership.SCHEDULER);
        leader.kill();
        assertThat(cluster.leader(Leadership.SCHEDULER)).isNotSameAs(leader);
        leader.start();
        assertThat(leader.id()).isPresent();
    }

    @Test
    void each_effect_happens_once_although_nodes_are_killed() {
        List<String> customers = ship(200);
        cluster.node(1).kill();
        cluster.node(2).loseSession();
        cluster.restartDatabase(Duration.ofMillis(300));
        cluster.node(1).start();
        cluster.eventually(Duration.ofMinutes(1), () -> cluster.auditor().allJobsCompleted());
        cluster.auditor().eachOnce(SHIPPED, customers).oneFiringPerSlot().noWriteOfAnOldTerm();
    }

    @Test
    void node_that_is_frozen_or_cut_is_replaced() {
        cluster.node(1).freeze();
        cluster.node(2).cutFromDatabase();
        cluster.node(3).slowDown(Duration.ofMillis(2));
        List<String> customers = ship(20);
        cluster.eventually(Duration.ofMinutes(1), () -> cluster.auditor().eachOnce(SHIPPED, customers));
        cluster.node(1).resume();
        cluster.node(2).reconnect();
        cluster.eventually(Duration.ofMinutes(1), () -> assertThat(members()).isEqualTo(4));
        cluster.auditor().eachOnce(SHIPPED, customers);
    }

    @Test
    void wrong_clock_of_a_node_changes_nothing() {
        cluster.node(1).skewClock(Duration.ofHours(5));
        Clock clock = cluster.node(1).get(Clock.class);
        assertThat(Duration.between(cluster.clock().instant(), clock.instant())).isGreaterThan(Duration.ofHours(4));
        UUID delayed = cluster.node(1)
                .get(Jobs.class)
                .enqueue(new Ship("late"), JobOptions.defaults().withDelay(Duration.ofHours(1)))
                .id();
        assertThat(cluster.node(1).get(Jobs.class).find(delayed).orElseThrow().scheduledAt())
                .isBefore(cluster.clock().instant().plus(Duration.ofMinutes(61)));
        cluster.clock().advance(Duration.ofHours(1));
        cluster.eventually(() -> cluster.auditor().eachOnce(SHIPPED, List.of("late")));
        assertThat(members()).isEqualTo(4);
    }

    @Test
    void steps_that_any_node_executes_are_known(@Autowired Workflows workflows) {
        UUID run = workflows.start("checkout", new Checkout.Order("ada"));
        cluster.eventually(() -> assertThat(cluster.workflow(run)).hasStatus(WorkflowStatus.WAITING));
        assertThat(cluster.workflow(run)).hasExecuted("reserve", "charge");
    }

    @Test
    void node_that_drains_takes_no_jobs() {
        cluster.nodes().stream().skip(1).forEach(TestNode::drain);
        List<String> customers = ship(10);
        cluster.eventually(() -> cluster.auditor().eachOnce(SHIPPED, customers));
        assertThat(jobs)
                .enqueued(Ship.class)
                .times(10)
                .jobs()
                .forEach(job ->
                        assertThat(job.nodeId()).isEqualTo(cluster.node(1).id().orElseThrow()));
    }

    private long members() {
        return cluster.database()
                .jdbc()
                .sql("SELECT count(*) FROM forge_nodes WHERE status <> 'dead'")
                .query(Long.class)
                .single();
    }

    private List<String> ship(int count) {
        List<String> customers =
                IntStream.range(0, count).mapToObj(i -> "customer-" + i).toList();
        jobs.enqueueAll(customers.stream().map(Ship::new).toList());
        return customers;
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.TestNode;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import shop.Mailing.Ship;

/** The recipes of the guide that need several nodes; {@link RecipePageTests} compares them. */
@ClusterTest(nodes = 3)
class RecipesWithNodesTests {

    @Autowired
    ClusterTester cluster;

    @Autowired
    Jobs jobs;

    @Autowired
    Daemons daemons;

    // recipe
    @Test
    void another_node_leads_when_the_leader_dies() {
        TestNode leader = cluster.leader(Leadership.SCHEDULER);
        leader.kill();

        assertThat(cluster.leader(Leadership.SCHEDULER)).isNotSameAs(leader);
    }

    // recipe
    @Test
    void price_feed_moves_to_another_node() {
        cluster.eventually(() -> assertThat(nodeOf("price-feed")).isNotNull());
        String former = nodeOf("price-feed");
        cluster.nodes().stream().filter(node -> node.name().equals(former)).forEach(TestNode::kill);

        cluster.eventually(() -> assertThat(nodeOf("price-feed")).isNotNull().isNotEqualTo(former));
    }

    private String nodeOf(String daemon) {
        return daemons.find(daemon).orElseThrow().instances().get(0).nodeName();
    }

    // recipe
    @Test
    void each_order_ships_once_although_nodes_die() {
        List<String> customers =
                IntStream.range(0, 300).mapToObj(i -> "customer-" + i).toList();
        jobs.enqueueAll(customers.stream().map(Ship::new).toList());
        cluster.node(1).kill();
        cluster.node(2).freeze();
        cluster.eventually(Duration.ofMinutes(1), () -> cluster.auditor().allJobsCompleted());
        cluster.node(2).resume();

        cluster.auditor()
                .eachOnce("SELECT customer FROM orders WHERE status = 'shipped'", customers)
                .oneFiringPerSlot()
                .noWriteOfAnOldTerm();
    }
}

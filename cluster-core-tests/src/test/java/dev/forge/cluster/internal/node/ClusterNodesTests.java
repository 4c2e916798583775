// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.node.NodeInfo;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.node.NodeStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The list of nodes for applications. */
@ClusterPostgres
class ClusterNodesTests {

    private final TestDatabase database;
    private final TestCluster cluster;

    ClusterNodesTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    private ClusterNodes nodes(Member member) {
        return new DefaultClusterNodes(member.node(), new NodeReports(cluster.schema, database.dataSource()));
    }

    @Test
    void live_nodes_are_listed_by_name_and_dead_ones_are_found_by_id() {
        Member two = cluster.start("two", UnaryOperator.identity());
        Member one = cluster.start("one", UnaryOperator.identity());
        ClusterNodes nodes = nodes(one);
        assertThat(nodes.list()).extracting(NodeInfo::name).containsExactly("one", "two");
        NodeInfo self = nodes.self().orElseThrow();
        assertThat(self.id()).isEqualTo(one.node().id());
        assertThat(self.status()).isEqualTo(NodeStatus.ACTIVE);
        assertThat(self.roles()).contains(NodeRole.SCHEDULER);
        assertThat(self.heartbeatAge()).isBetween(Duration.ZERO, Duration.ofMinutes(1));
        assertThat(nodes.find(self.id())).isPresent();
        assertThat(nodes.find(UUID.randomUUID())).isEmpty();
        UUID left = two.node().id();
        two.stop();
        var dead = UUID.randomUUID();
        database.jdbc().sql("""
                        INSERT INTO forge_nodes
                        SELECT (jsonb_populate_record(n, jsonb_build_object(
                            'id', ?::text, 'node_key', 'crashed', 'name', 'crashed', 'status', 'dead'))).*
                        FROM forge_nodes n WHERE name = 'one'
                        """).param(dead.toString()).update();
        assertThat(nodes.list()).extracting(NodeInfo::name).containsExactly("one");
        assertThat(nodes.find(left)).isEmpty();
        assertThat(nodes.find(dead)).map(NodeInfo::status).hasValue(NodeStatus.DEAD);
        assertThat(nodes(two).self()).isEmpty();
    }

    @Test
    void node_with_an_unknown_role_is_listed() {
        Member one = cluster.start("one", UnaryOperator.identity());
        database.jdbc()
                .sql("UPDATE forge_nodes SET roles = roles || '{archivist}'::text[]")
                .update();
        assertThat(nodes(one).list()).hasSize(1);
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

@ClusterPostgres
class NodeTests {

    private static final Duration NEVER = Duration.ofHours(1);

    private final TestDatabase database;
    private final Schema schema;
    private final JdbcClient jdbc;
    private final ControlConnections control;
    private final NodeStore nodes;
    private final ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();

    NodeTests(TestDatabase database) {
        this.database = database;
        this.schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.jdbc = database.jdbc();
        this.control = new ControlConnections(database.newSessions(), Pooler.NONE, 2, Duration.ofSeconds(5));
        this.nodes = new NodeStore(schema, control);
    }

    @BeforeEach
    void start() {
        database.clear();
        scheduler.initialize();
    }

    @AfterEach
    void stop() {
        scheduler.shutdown();
        control.close();
    }

    private Node node(String key, Duration heartbeat) {
        return TestNodes.node(resources(key), TestNodes.worker(heartbeat), scheduler);
    }

    private Node.Resources resources(String key) {
        return new Node.Resources(
                schema,
                database.newSessions(),
                control,
                nodes,
                () -> new NodeIdentity(key, "name of " + key),
                new Audit(schema, Optional::empty, audited -> {}));
    }

    @Test
    void node_is_in_the_table_from_start_to_stop() {
        Node node = node("one", Duration.ofSeconds(5));
        node.start();
        assertThat(jdbc.sql("SELECT * FROM forge_nodes").query().singleRow())
                .containsEntry("id", node.id())
                .containsEntry("node_key", "one")
                .containsEntry("name", "name of one")
                .containsEntry("status", "active")
                .containsEntry("beats", 0L);
        assertThat(jdbc.sql("""
                        SELECT roles[1] || ' ' || worker_capabilities[1] || ' ' || (info ->> 'zone') || ' '
                            || extract(epoch FROM stale_at - last_heartbeat)::int || ' '
                            || extract(epoch FROM dead_at - last_heartbeat)::int FROM forge_nodes
                        """).query(String.class).single()).isEqualTo("worker general a 10 15");
        node.stop();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void heartbeat_loop_sends_heartbeats() {
        Node node = node("one", Duration.ofMillis(10));
        node.start();
        await().until(() -> jdbc.sql("SELECT beats >= 3 AND last_heartbeat > started_at FROM forge_nodes")
                .query(Boolean.class)
                .single());
        node.stop();
    }

    @Test
    void restarted_node_joins_with_a_new_id() {
        Node node = node("one", NEVER);
        node.start();
        UUID former = node.id();
        node.stop();
        assertThat(node.id()).isNull();
        node.start();
        assertThat(node.id()).isNotNull().isNotEqualTo(former);
        assertThat(jdbc.sql("SELECT id FROM forge_nodes").query(UUID.class).list())
                .containsExactly(node.id());
        node.stop();
    }

    @Test
    void live_node_that_was_declared_dead_joins_with_a_new_id() {
        Node node = node("one", NEVER);
        node.start();
        UUID former = node.id();
        jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
        node.beat();
        assertThat(node.id()).isNotEqualTo(former);
        UUID second = node.id();
        jdbc.sql("DELETE FROM forge_nodes").update();
        node.beat();
        assertThat(node.id()).isNotEqualTo(second);
        node.stop();
    }

    @Test
    void concurrent_heartbeats_let_a_node_that_was_declared_dead_join_once() throws Exception {
        Node node = node("one", NEVER);
        node.start();
        var threads = Executors.newFixedThreadPool(2);
        try {
            for (int round = 0; round < 3; round++) {
                UUID former = node.id();
                jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
                var together = new CyclicBarrier(2);
                Callable<Void> beat = () -> {
                    together.await(60, TimeUnit.SECONDS);
                    node.beat();
                    return null;
                };
                for (Future<Void> beaten : List.of(threads.submit(beat), threads.submit(beat))) {
                    beaten.get(60, TimeUnit.SECONDS);
                }
                assertThat(node.id()).isNotEqualTo(former);
                assertThat(jdbc.sql("SELECT id FROM forge_nodes WHERE status <> 'dead'")
                                .query(UUID.class)
                                .list())
                        .containsExactly(node.id());
            }
        } finally {
            threads.shutdownNow();
            node.stop();
        }
    }

    @Test
    void second_live_node_with_the_same_key_is_rejected_with_the_name_of_the_first() {
        Node first = node("same", Duration.ofMillis(50));
        first.start();
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> TestNodes.node(resources("same"), TestNodes.impatient(), scheduler)
                        .start())
                .withMessageContaining(
                        "forge.cluster.node.id (same) belongs to a live node of this cluster, '%s' on host"
                                .formatted(first.identity().name()));
        first.stop();
    }

    @Test
    void former_holder_of_the_key_is_declared_dead_after_its_deadline() {
        Node killed = node("same", NEVER);
        killed.start();
        jdbc.sql("UPDATE forge_nodes SET dead_at = now() - interval '1 second'").update();
        Node successor = node("same", NEVER);
        successor.start();
        assertThat(jdbc.sql("SELECT id FROM forge_nodes WHERE status = 'active'")
                        .query(UUID.class)
                        .list())
                .containsExactly(successor.id());
        successor.stop();
        killed.stop();
    }

    @Test
    void node_stops_without_a_database() {
        Node node = node("one", NEVER);
        node.start();
        control.close();
        node.stop();
        assertThat(node.id()).isNull();
    }
}

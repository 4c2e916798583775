// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeJoined;
import dev.forge.cluster.node.NodeLeft;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;

@ClusterPostgres
class MembershipTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    MembershipTests(TestDatabase database) {
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
    void nodes_receive_an_event_when_another_node_joins_and_leaves() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        UUID id = two.node().id();
        await().until(() -> one.events().contains(new NodeJoined(id, "two")));
        two.stop();
        await().until(() -> one.events().contains(new NodeLeft(id, "two")));
        assertThat(one.events()).noneMatch(NodeDied.class::isInstance);
    }

    @Test
    void node_whose_parts_take_long_to_end_leaves_and_is_not_declared_dead() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.create("two", s -> s);
        cluster.members.add(two);
        two.node().components().register(new NodeComponent() {
            @Override
            public void end() {
                // Waits as long as it takes to detect a crashed node.
                UUID crashed = cluster.insertNode("crashed", 123, "10 minutes", "15 minutes");
                await().until(() -> one.events().contains(new NodeDied(crashed, "crashed")));
            }
        });
        two.node().start();
        UUID id = two.node().id();
        await().until(() -> one.events().contains(new NodeJoined(id, "two")));
        two.stop();
        await().until(() -> one.events().contains(new NodeLeft(id, "two")));
        assertThat(one.events()).doesNotContain(new NodeDied(id, "two"));
    }

    @Test
    void silent_node_becomes_stale_and_then_dead_by_its_own_deadlines() {
        Member one = cluster.start("one", s -> s);
        // An observer that pauses for two seconds starts to count again; a shorter pause must not skip a status.
        UUID silent = cluster.insertNode("silent", null, "700 milliseconds", "6 seconds");
        UUID patient = cluster.insertNode("patient", null, "1 minute", "2 minutes");
        await().until(() -> cluster.status("silent").equals("stale"));
        await().until(() -> cluster.status("silent").equals("dead"));
        await().until(() -> one.events().contains(new NodeDied(silent, "silent")));
        assertThat(cluster.status("patient")).isEqualTo("active");
        assertThat(one.events()).doesNotContain(new NodeDied(patient, "patient"));
    }

    @Test
    void node_without_its_lock_is_declared_dead_long_before_its_deadline() throws SQLException {
        Member one = cluster.start("one", s -> s);
        try (Connection sessions = database.dataSource().getConnection();
                Statement locks = sessions.createStatement()) {
            locks.execute("SELECT pg_advisory_lock(%d, 123)".formatted(0x464F5247));
            UUID crashed = cluster.insertNode("crashed", 123, "10 minutes", "15 minutes");
            // The node has to be seen with its lock: a node whose lock was never seen gets more time.
            await().until(() -> one.events().contains(new NodeJoined(crashed, "crashed")));
        }
        await().until(() -> cluster.status("crashed").equals("dead"));
    }

    @Test
    void locked_rows_of_dead_nodes_do_not_delay_the_detection_of_another_dead_node() throws SQLException {
        Member one = cluster.start("one", s -> s);
        UUID first = cluster.insertNode("first", 121, "10 minutes", "15 minutes");
        UUID second = cluster.insertNode("second", 122, "10 minutes", "15 minutes");
        UUID third = cluster.insertNode("third", 123, "10 minutes", "15 minutes");
        try (Connection other = database.dataSource().getConnection();
                Statement lock = other.createStatement()) {
            other.setAutoCommit(false);
            lock.execute("SELECT FROM forge_nodes WHERE name <> 'one' FOR UPDATE");
            UUID crashed = cluster.insertNode("crashed", 124, "10 minutes", "15 minutes");
            await().until(() -> one.events().contains(new NodeDied(crashed, "crashed")));
            assertThat(one.events()).doesNotContain(new NodeDied(first, "first"));
        }
        await().until(() -> Stream.of(first, second, third)
                .allMatch(id -> one.events().stream()
                        .anyMatch(event ->
                                event instanceof NodeDied died && died.id().equals(id))));
    }

    @Test
    void throwing_logger_keeps_no_node_from_joining_again_declaring_others_dead_or_leaving() {
        Member one = cluster.start("one", s -> s);
        UUID former = one.node().id();
        try (var loggers = new ThrowingLoggers()) {
            jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
            one.node().beat();
            assertThat(one.node().id()).isNotEqualTo(former);
            UUID crashed = cluster.insertNode("crashed", null, "100 milliseconds", "200 milliseconds");
            await().until(() -> one.events().contains(new NodeDied(crashed, "crashed")));
            one.node().stop();
            assertThat(cluster.status("one")).isEqualTo("dead");
            assertThat(loggers.thrown).isNotEmpty();
        }
    }

    @Test
    void node_takes_over_its_own_id_although_the_clock_of_the_database_was_set_back() {
        UUID former = cluster.insertNode("one", null, "100 milliseconds", "200 milliseconds");
        jdbc.sql(
                        "UPDATE forge_nodes SET last_heartbeat = last_heartbeat + interval '1 hour', dead_at = dead_at + interval '1 hour'")
                .update();
        Member one = cluster.start(
                "one",
                settings -> TestNodes.withHeartbeat(
                        settings,
                        TestNodes.heartbeat(Duration.ofMillis(200), Duration.ofMillis(400), Duration.ofMillis(600))));
        assertThat(one.node().id()).isNotEqualTo(former);
        assertThat(jdbc.sql("SELECT status FROM forge_nodes WHERE id = ?")
                        .param(former)
                        .query(String.class)
                        .single())
                .isEqualTo("dead");
    }

    @Test
    void leases_locks_and_jobs_of_a_dead_node_are_released_with_its_declaration() {
        Member one = cluster.start("one", s -> s);
        UUID crashed = cluster.insertNode("crashed", 123, "10 seconds", "15 seconds");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        jdbc.sql(
                        "INSERT INTO forge_leader_leases (role, node_id, lease_until) VALUES ('own', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id)
                VALUES (gen_random_uuid(), 'begun', 'running', :node), (gen_random_uuid(), 'waiting', 'claimed', :node),
                       (gen_random_uuid(), 'done', 'completed', :node)
                """).param("node", crashed).update();
        assertThat(one.locks().tryLock("import")).isEmpty();
        await().until(() -> cluster.status("crashed").equals("dead"));
        assertThat(jdbc.sql("SELECT name || ' ' || status || ' ' || recoveries FROM forge_jobs ORDER BY name")
                        .query((row, n) -> row.getString(1))
                        .list())
                .containsExactly("begun pending 1", "done completed 0", "waiting pending 0");
        assertThat(one.locks().tryLock("import")).isPresent();
        assertThat(jdbc.sql("SELECT node_id IS NULL FROM forge_leader_leases WHERE role = 'own'")
                        .query(Boolean.class)
                        .single())
                .isTrue();
    }

    @Test
    void node_drains_by_request_of_an_operator_even_at_a_slow_heartbeat() {
        Member one = cluster.start(
                "one",
                s -> TestNodes.withHeartbeat(
                        s,
                        TestNodes.heartbeat(Duration.ofMinutes(10), Duration.ofMinutes(20), Duration.ofMinutes(30))));
        await().until(() -> one.leadership().isLeader("scheduler"));
        jdbc.sql("UPDATE forge_nodes SET status = 'draining' WHERE name = 'one'")
                .update();
        await().until(() -> one.node().state() == Node.State.DRAINING);
        await().until(() -> one.node().elector().applicationRolesHeld().isEmpty());
        assertThat(cluster.status("one")).isEqualTo("draining");
        Member two = cluster.start("two", s -> s);
        await().until(() -> two.leadership().isLeader("scheduler"));
    }

    @Test
    void leaving_node_waits_for_running_work_and_returns_what_does_not_end_in_time() {
        Member one = cluster.start("one", s -> TestNodes.withDrainTimeout(s, Duration.ofMillis(300)));
        var quick = new Recorded("quick", true);
        var endless = new Recorded("endless", false);
        List<String> steps = Collections.synchronizedList(new ArrayList<>());
        quick.steps = steps;
        endless.steps = steps;
        one.node().components().register(quick);
        one.node().components().register(endless);
        one.stop();
        assertThat(steps)
                .containsExactly(
                        "quick takes nothing new",
                        "endless takes nothing new",
                        "quick is idle",
                        "endless is given back");
        assertThat(cluster.status("one")).isEqualTo("absent");
    }

    private static final class Recorded implements NodeComponent {
        private final String name;
        private final boolean finishes;
        private List<String> steps = List.of();

        Recorded(String name, boolean finishes) {
            this.name = name;
            this.finishes = finishes;
        }

        @Override
        public void quiesce() {
            steps.add(name + " takes nothing new");
        }

        @Override
        public boolean awaitIdle(Duration patience) {
            if (finishes) {
                steps.add(name + " is idle");
            }
            return finishes;
        }

        @Override
        public void release() {
            steps.add(name + " is given back");
        }
    }

    @Test
    void every_thread_of_a_node_logs_the_node_in_its_context() {
        try (var log = new Log()) {
            var connections = new AtomicInteger();
            // The session's first attempt fails; its log line must have the node's name already.
            var direct = new AbstractDataSource() {
                @Override
                public Connection getConnection() throws SQLException {
                    if (connections.getAndIncrement() == 0) {
                        throw new SQLException("not now");
                    }
                    return database.newSessions().getConnection();
                }

                @Override
                public Connection getConnection(String username, String password) throws SQLException {
                    return getConnection();
                }
            };
            Member one = cluster.start("one", direct, s -> TestNodes.withHeartbeat(s, TestNodes.everyTwentyMillis()));
            log.awaitLine("forge-cluster-session", "Session: lost");
            log.awaitLine("forge-cluster-session", "Leads {");
            cluster.insertNode("silent", null, "100 milliseconds", "200 milliseconds");
            log.awaitLine("node-one-", "'silent': declared dead");
            jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE name = 'one'")
                    .update();
            log.awaitLine("node-one-", "joined again");
            UUID id = one.node().id();
            jdbc.sql("UPDATE forge_nodes SET status = 'draining' WHERE id = ?")
                    .param(id)
                    .update();
            log.awaitLine("node-one-", "drained by request of an operator");
            assertThat(log.lines)
                    .filteredOn(line -> line.getThreadName().matches("(forge-cluster|node-one).*"))
                    .allSatisfy(line -> assertThat(line.getMDCPropertyMap())
                            .as(line.getFormattedMessage())
                            .containsKey("forge.node.id")
                            .containsEntry("forge.node.name", "one"));
            assertThat(log.lines)
                    .filteredOn(line -> line.getFormattedMessage().contains("drained"))
                    .allSatisfy(
                            line -> assertThat(line.getMDCPropertyMap()).containsEntry("forge.node.id", id.toString()));
        }
    }

    /** Collects the lines that the cluster logs until this appender is closed. */
    private static final class Log extends AppenderBase<ILoggingEvent> implements AutoCloseable {

        private final Logger logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
        private final List<ILoggingEvent> lines = new CopyOnWriteArrayList<>();

        Log() {
            logger.setLevel(Level.INFO);
            logger.setAdditive(false);
            logger.addAppender(this);
            start();
        }

        @Override
        protected void append(ILoggingEvent line) {
            line.prepareForDeferredProcessing();
            lines.add(line);
        }

        void awaitLine(String thread, String text) {
            await().until(() -> lines.stream()
                    .anyMatch(line -> line.getThreadName().startsWith(thread)
                            && line.getFormattedMessage().contains(text)));
        }

        @Override
        public void close() {
            logger.detachAppender(this);
            logger.setAdditive(true);
            logger.setLevel(null);
        }
    }

    @Test
    void observer_and_node_without_the_function_role_change_nothing() {
        Member observer = cluster.start("observer", s -> TestNodes.withMode(s, NodeMode.OBSERVER));
        Member worker = cluster.start("worker", s -> TestNodes.withRoles(s, NodeRole.WORKER));
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.locks().tryLock("import"))
                .withMessageContaining("forge.cluster.node.mode (observer)");
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> worker.locks().tryLock("import"))
                .withMessageContaining("forge.cluster.node.roles (worker) lacks function");
        // The observer declares no node dead.
        worker.stop();
        cluster.insertNode("crashed", 123, "100 milliseconds", "200 milliseconds");
        await().during(Duration.ofMillis(1_500))
                .until(() -> cluster.status("crashed").equals("active"));
        await().until(() -> observer.node().contact().sinceLastAnswer().compareTo(Duration.ofSeconds(1)) < 0);
    }

    @Test
    void observer_is_listed_with_its_mode_and_presumes_a_silent_leader_dead() {
        UUID killed = cluster.insertNode("killed", null, "700 milliseconds", "1 second");
        jdbc.sql("UPDATE forge_nodes SET roles = '{scheduler}'").update();
        jdbc.sql(
                        "INSERT INTO forge_leaders (role, node_id, current_term, acquired_at) VALUES ('scheduler', ?, 7, now())")
                .param(killed)
                .update();
        jdbc.sql(
                        "INSERT INTO forge_leader_leases (role, node_id, lease_until) VALUES ('scheduler', ?, now() - interval '1 second')")
                .param(killed)
                .update();
        Member observer = cluster.start("observer", s -> TestNodes.withMode(s, NodeMode.OBSERVER));
        assertThat(new NodeReports(cluster.schema, database.dataSource()).all())
                .filteredOn(row -> row.name().equals("observer"))
                .singleElement()
                .satisfies(row -> {
                    assertThat(row.mode()).isEqualTo("observer");
                    assertThat(row.roles()).containsExactly("gateway");
                });
        assertThat(new LeaderStore(cluster.schema, database.dataSource()).leaders())
                .singleElement()
                .satisfies(leader -> {
                    assertThat(leader.node()).isNull();
                    assertThat(leader.term()).isEqualTo(7);
                });
        await().until(() -> !observer.node().peers().hasLiveCandidate());
        // The observer declares no node dead.
        assertThat(cluster.status("killed")).isEqualTo("active");
        assertThat(observer.events()).noneMatch(NodeDied.class::isInstance);
        // Repeated, because the node is presumed dead again after a second.
        await().until(() -> {
            jdbc.sql("UPDATE forge_nodes SET beats = beats + 1 WHERE id = ?")
                    .param(killed)
                    .update();
            return observer.node().peers().hasLiveCandidate();
        });
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.AbstractDataSource;

/** Nodes on a database that rejects writes for a while, as during maintenance or after a failover to a standby. */
@ClusterPostgres
class ReadOnlyServerTests {

    private final TestDatabase database;
    private final TestCluster cluster;
    private final AtomicInteger opened = new AtomicInteger();
    private final List<ILoggingEvent> lines = new CopyOnWriteArrayList<>();
    private final Logger logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
    private final AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
        @Override
        protected void append(ILoggingEvent line) {
            lines.add(line);
        }
    };

    /** Counts the connections that the nodes open. */
    private final AbstractDataSource counted = new AbstractDataSource() {
        @Override
        public Connection getConnection() throws SQLException {
            opened.incrementAndGet();
            return database.newSessions().getConnection();
        }

        @Override
        public Connection getConnection(String username, String password) throws SQLException {
            return getConnection();
        }
    };

    ReadOnlyServerTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
    }

    @BeforeEach
    void listen() {
        logger.setLevel(Level.INFO);
        appender.start();
        logger.addAppender(appender);
    }

    @AfterEach
    void stop() {
        database.setReadOnly(false);
        cluster.close();
        logger.detachAppender(appender);
        logger.setLevel(null);
    }

    private Member start(String name, TestJobs jobs) {
        return cluster.start(
                name,
                counted,
                jobs,
                s -> TestNodes.withHeartbeat(
                        s, TestNodes.heartbeat(Duration.ofMillis(200), Duration.ofSeconds(2), Duration.ofSeconds(5))));
    }

    private long beats(UUID node) {
        return database.jdbc()
                .sql("SELECT beats FROM forge_nodes WHERE id = ?")
                .param(node)
                .query(Long.class)
                .single();
    }

    @Test
    void node_sends_heartbeats_and_claims_again_soon_after_the_window() throws Exception {
        var jobs = new TestJobs(database.dataSource()).on("job", context -> {});
        Member one = start("one", jobs);
        await().until(() -> one.leadership().isLeader("scheduler"));
        UUID id = one.node().id();
        database.setReadOnly(true);
        // The node can read, but its heartbeats fail.
        await().until(() -> !one.node().contact().isRecent());
        database.setReadOnly(false);
        long before = beats(id);
        await().until(() -> beats(id) > before && one.node().contact().isRecent());
        UUID job = one.jobs().enqueueNamed("job", null).id();
        one.ended(job);
        assertThat(one.node().id()).isEqualTo(id);
    }

    @Test
    void node_backs_off_and_logs_the_cause_once() throws Exception {
        Member one = start("one", new TestJobs(database.dataSource()));
        await().until(() -> one.leadership().isLeader("scheduler"));
        database.setReadOnly(true);
        await().until(() -> lines.stream().anyMatch(line -> line.getLevel() == Level.WARN));
        int before = opened.get();
        long start = System.nanoTime();
        // Two attempts a second for each of the three connections are enough; a tight loop would open dozens a second.
        await().during(Duration.ofSeconds(3))
                .until(() -> opened.get() - before < 10 + 8 * (System.nanoTime() - start) / 1_000_000_000);
        assertThat(lines).filteredOn(line -> line.getThrowableProxy() != null).isEmpty();
        assertThat(lines)
                .filteredOn(line -> line.getFormattedMessage().startsWith("session: "))
                .hasSizeLessThanOrEqualTo(2);
    }

    @Test
    void silence_during_the_window_ends_no_node() throws Exception {
        Member one = start("one", new TestJobs(database.dataSource()));
        Member two = start("two", new TestJobs(database.dataSource()));
        List<UUID> ids = List.of(one.node().id(), two.node().id());
        await().until(() ->
                one.node().peers().liveWorkers() == 2 && two.node().peers().liveWorkers() == 2);
        database.setReadOnly(true);
        // Longer than the deadlines of both nodes.
        await().until(() -> database.jdbc()
                .sql("SELECT bool_and(dead_at + interval '1 second' < clock_timestamp()) FROM forge_nodes")
                .query(Boolean.class)
                .single());
        database.setReadOnly(false);
        await().until(() ->
                one.node().contact().isRecent() && two.node().contact().isRecent());
        await().during(Duration.ofSeconds(3))
                .until(() -> ids.equals(List.of(one.node().id(), two.node().id())));
        assertThat(one.events()).noneMatch(NodeDied.class::isInstance);
        assertThat(two.events()).noneMatch(NodeDied.class::isInstance);
    }
}

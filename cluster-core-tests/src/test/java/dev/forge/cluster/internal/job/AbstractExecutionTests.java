// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.ThrowableProxyUtil;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Fixture with a cluster that runs jobs and workflows, and its log lines. */
@ClusterPostgres
abstract class AbstractExecutionTests {

    final JdbcClient jdbc;
    final TestCluster cluster;
    final TestJobs work;
    final TestWorkflows flows;
    final ListAppender<ILoggingEvent> logged = new ListAppender<>();
    private final Logger engine = (Logger) LoggerFactory.getLogger("dev.forge.cluster.internal");
    /** Releases handlers that ignore interrupts. */
    final CountDownLatch release = new CountDownLatch(1);

    AbstractExecutionTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        this.flows = new TestWorkflows(cluster);
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (job uuid)").update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @BeforeEach
    void listen() {
        // The list is read while other threads log.
        logged.list = new CopyOnWriteArrayList<>();
        logged.start();
        engine.addAppender(logged);
    }

    @AfterEach
    void close() {
        release.countDown();
        cluster.close();
        engine.detachAppender(logged);
    }

    Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    static NodeSettings impatient(NodeSettings settings) {
        return TestNodes.withDrainTimeout(settings, Duration.ofMillis(300));
    }

    static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    }

    /** Ignores interrupts until the test releases the handler. */
    void ignoreInterrupts() {
        while (release.getCount() > 0) {
            try {
                release.await();
            } catch (InterruptedException e) {
                // Ignores the interrupt on purpose.
            }
        }
    }

    List<ILoggingEvent> logged(Level level, String text) {
        return List.copyOf(logged.list).stream()
                .filter(event ->
                        event.getLevel() == level && event.getFormattedMessage().contains(text))
                .toList();
    }

    static String text(ILoggingEvent event) {
        return event.getFormattedMessage()
                + (event.getThrowableProxy() == null ? "" : ThrowableProxyUtil.asString(event.getThrowableProxy()));
    }

    String column(UUID job, String expression) {
        return jdbc.sql("SELECT (%s)::text FROM forge_jobs WHERE id = ?".formatted(expression))
                .param(job)
                .query(String.class)
                .single();
    }
}

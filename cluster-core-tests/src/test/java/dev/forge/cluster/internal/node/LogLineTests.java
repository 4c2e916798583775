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
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.postgresql.Driver;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** The log lines of healthy nodes, and of nodes whose database fails. */
@ClusterPostgres
class LogLineTests {

    private final TestDatabase database;
    private final TestCluster cluster;
    private final List<ILoggingEvent> events = new CopyOnWriteArrayList<>();
    private final Logger logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
    private final Logger root = (Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME);
    private final AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
        @Override
        protected void append(ILoggingEvent event) {
            events.add(event);
        }
    };

    LogLineTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
    }

    @BeforeEach
    void listen() {
        appender.setContext(logger.getLoggerContext());
        appender.start();
        logger.setLevel(Level.INFO);
        root.addAppender(appender);
    }

    @AfterEach
    void close() {
        cluster.close();
        root.detachAppender(appender);
        logger.setLevel(null);
    }

    private List<String> lines(Level atLeast) {
        return events.stream()
                .filter(event -> event.getLevel().isGreaterOrEqual(atLeast))
                .map(ILoggingEvent::getFormattedMessage)
                .toList();
    }

    @Test
    void only_node_stops_without_a_warning() throws Exception {
        var started = new CountDownLatch(1);
        var sawNoCandidate = new CountDownLatch(1);
        var member = new AtomicReference<Member>();
        var work = new TestJobs(database.dataSource()).on("job", context -> {
            started.countDown();
            // The drain waits for this job. Meanwhile the node detects that no other node can lead.
            await().until(() -> !member.get().node().peers().hasLiveCandidate());
            sawNoCandidate.countDown();
        });
        member.set(cluster.start("only", work, UnaryOperator.identity()));
        await().until(() -> member.get().node().peers().hasLiveCandidate());
        member.get().jobs().enqueueNamed("job", null);
        assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
        UUID id = member.get().node().id();
        member.get().stop();
        assertThat(sawNoCandidate.getCount()).isZero();
        assertThat(lines(Level.WARN)).isEmpty();
        assertThat(lines(Level.INFO))
                .filteredOn(line -> line.startsWith("Node %s: drain".formatted(id)))
                .satisfiesExactly(
                        begin -> assertThat(begin).contains("draining. Running jobs: 1; they may take PT"),
                        end -> assertThat(end).contains("drained in PT").endsWith("Interrupted jobs: 0."));
    }

    private UUID nodeId() {
        return database.jdbc()
                .sql("SELECT id FROM forge_nodes")
                .query(UUID.class)
                .single();
    }

    @Test
    void cancelled_job_is_no_warning() throws Exception {
        var started = new CountDownLatch(1);
        var work = new TestJobs(database.dataSource()).on("job", context -> {
            started.countDown();
            new CountDownLatch(1).await();
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        UUID id = one.jobs().enqueueNamed("job", null).id();
        assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
        assertThat(one.jobs().cancel(id)).isTrue();
        await().until(() -> one.engine().load() == 0);
        await().untilAsserted(() -> assertThat(lines(Level.INFO))
                .anyMatch(line -> line.startsWith("Job job (%s): cancelled".formatted(id))));
        assertThat(lines(Level.INFO)).noneMatch(line -> line.contains("attempt 1 of 3 failed"));
        assertThat(lines(Level.WARN)).isEmpty();
    }

    @Test
    void names_without_a_handler_are_listed_up_to_a_limit() {
        database.jdbc()
                .sql(
                        "INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'junk-' || n FROM generate_series(1, 2000) n")
                .update();
        cluster.start("one", new TestJobs(database.dataSource()), UnaryOperator.identity());
        assertThat(lines(Level.WARN))
                .filteredOn(line -> line.contains("No live node has a handler"))
                .singleElement()
                .satisfies(line ->
                        assertThat(line).contains("junk-1=1", "and 1980 more").hasSizeLessThan(2_000));
    }

    @Test
    void row_with_control_characters_from_sql_forges_no_line_and_stops_no_job() {
        String evil = "evil\n2026-01-01 ERROR forged\u001b[31m";
        // The owner of the tables can drop these constraints.
        List.of("name", "key", "capability")
                .forEach(column -> database.jdbc()
                        .sql("ALTER DOMAIN forge_job_%1$s DROP CONSTRAINT IF EXISTS forge_jobs_%1$s".formatted(column))
                        .update());
        database.jdbc().sql("""
                        INSERT INTO forge_jobs (id, name, unique_key, worker_capability, status, worker_id)
                        VALUES (gen_random_uuid(), :evil, :evil, :evil, 'pending', NULL),
                               (gen_random_uuid(), :evil, :evil || '2', NULL, 'pending', NULL),
                               (gen_random_uuid(), 'job', :evil, :evil, 'pending', NULL),
                               (gen_random_uuid(), :evil, :evil || '3', NULL, 'running', gen_random_uuid()),
                               (gen_random_uuid(), 'job', :evil || '4', NULL, 'pending', NULL)
                        """).param("evil", evil).update();
        var work = new TestJobs(database.dataSource()).on("job", context -> {});
        work.sweep = Duration.ofMillis(100);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        assertThat(one.ended(one.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        await().until(() -> lines(Level.WARN).stream().anyMatch(line -> line.contains("taken from node")));
        await().until(() -> database.jdbc()
                .sql("SELECT count(*) = 2 FROM forge_jobs WHERE status = 'completed'")
                .query(Boolean.class)
                .single());
        assertThatExceptionOfType(UnknownJobException.class)
                .isThrownBy(() -> one.jobs().enqueueNamed("missing", null))
                .satisfies(e -> assertThat(e.getMessage()).doesNotContain("\n", "\u001b"));
        assertThat(lines(Level.DEBUG)).noneMatch(line -> line.contains("\n") || line.contains("\u001b"));
    }

    @Test
    void recovered_jobs_are_named_up_to_a_limit() {
        database.jdbc().sql("""
                        INSERT INTO forge_jobs (id, name, status, worker_id)
                        SELECT gen_random_uuid(), 'job', 'running', '00000000-0000-0000-0000-000000000001'
                        FROM generate_series(1, 100)
                        """).update();
        var work = new TestJobs(database.dataSource()).on("job", context -> {});
        work.sweep = Duration.ofMillis(100);
        cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> lines(Level.WARN).stream()
                .anyMatch(line -> line.startsWith("90 more jobs were taken from dead or silent nodes")));
        assertThat(lines(Level.WARN))
                .filteredOn(line -> line.contains("taken from node"))
                .hasSize(10);
    }

    @Test
    void failed_jobs_are_named_up_to_a_limit_and_counted() {
        var work = new TestJobs(database.dataSource()).on(TestJobs.job("fails").attempts(1), (payload, context) -> {
            throw new IllegalStateException("declined");
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        for (int i = 0; i < 45; i++) {
            one.jobs().enqueueNamed("fails", null);
        }
        await().until(() -> database.jdbc()
                .sql("SELECT count(*) = 45 FROM forge_jobs WHERE status = 'failed'")
                .query(Boolean.class)
                .single());
        assertThat(lines(Level.ERROR))
                .filteredOn(line -> line.contains("failed at attempt 1 of 1"))
                .hasSize(10);
        assertThat(lines(Level.ERROR))
                .filteredOn(line -> line.contains("more times"))
                .containsExactly(
                        "Job fails: failed, no further attempt: 10 more times. The level DEBUG has these lines.",
                        "Job fails: failed, no further attempt: 20 more times. The level DEBUG has these lines.");
    }

    @Test
    void workflow_is_named_once() {
        var flows = new TestWorkflows(cluster);
        flows.on(
                "checkout",
                wf -> wf.step("charge", String.class, () -> {
                    throw new IllegalStateException("declined");
                }));
        TestWorkflows.Member one = flows.start("one");
        one.ended(one.workflows().start("checkout", null));
        assertThat(lines(Level.INFO))
                .anyMatch(line -> line.startsWith("Workflow checkout@1 run "))
                .noneMatch(line -> line.contains("orkflow workflow:"));
    }

    @Test
    void node_that_stops_without_its_database_logs_one_line() throws Exception {
        Properties url = Driver.parseURL(database.url(), new Properties());
        var started = new CountDownLatch(1);
        var member = new AtomicReference<Member>();
        TcpProxy network = TcpProxy.to(url.getProperty("PGHOST"), Integer.parseInt(url.getProperty("PGPORT")));
        try {
            // The drain waits six seconds for this job. Meanwhile every loop detects that the server is unreachable.
            var work = new TestJobs(database.dataSource()).on("job", context -> {
                started.countDown();
                await().until(() -> member.get().node().state() == Node.State.DRAINING);
                network.close();
                new CountDownLatch(1).await();
            });
            var direct = new DriverManagerDataSource(
                    "jdbc:postgresql://localhost:%d/%s".formatted(network.port(), database.name()),
                    database.username(),
                    database.password());
            member.set(cluster.start(
                    "one", direct, work, settings -> TestNodes.withDrainTimeout(settings, Duration.ofSeconds(6))));
            member.get().jobs().enqueueNamed("job", null);
            assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
            member.get().stop();
        } finally {
            network.close();
        }
        assertThat(events).as(lines(Level.INFO).toString()).noneMatch(event -> event.getThrowableProxy() != null);
        assertThat(lines(Level.WARN))
                .noneMatch(line -> line.startsWith("loop ") || line.startsWith("session"))
                .filteredOn(line -> line.contains("database unreachable"))
                .containsExactly("Could not deregister node %s: database unreachable. Other nodes will declare it dead."
                        .formatted(nodeId()));
    }
}

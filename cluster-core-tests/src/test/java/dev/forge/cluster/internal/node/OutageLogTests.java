// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.forge.cluster.internal.daemon.DaemonEngine;
import dev.forge.cluster.internal.daemon.DaemonHandlers;
import dev.forge.cluster.internal.daemon.TestDaemons;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.postgresql.Driver;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** The log lines of a node that loses its database for a while: one when something fails, one when it works again. */
@ClusterPostgres
class OutageLogTests {

    private static final Pattern FAILURE =
            Pattern.compile("(Loop [a-z-]+|Session|Could not claim jobs)[:;] (?!works again).*");
    private static final Pattern RECOVERY =
            Pattern.compile("(Loop [a-z-]+|Session|Claiming jobs)(?:: works)? again after .*");

    private final TestDatabase database;
    private final TestCluster cluster;
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final Logger logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
    private final AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
        @Override
        protected void append(ILoggingEvent event) {
            lines.add(event.getFormattedMessage());
        }
    };

    private volatile TcpProxy network;

    OutageLogTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
        this.network = network();
    }

    @BeforeEach
    void listen() {
        appender.setContext(logger.getLoggerContext());
        appender.start();
        logger.setLevel(Level.INFO);
        logger.addAppender(appender);
    }

    @AfterEach
    void close() {
        cluster.close();
        network.close();
        logger.detachAppender(appender);
        logger.setLevel(null);
    }

    private TcpProxy network() {
        Properties url = Driver.parseURL(database.url(), new Properties());
        return TcpProxy.to(url.getProperty("PGHOST"), Integer.parseInt(url.getProperty("PGPORT")));
    }

    /** Returns sessions through the present network. A network that was closed refuses connections, like a stopped server. */
    private DataSource throughNetwork() {
        return new AbstractDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                return new DriverManagerDataSource(
                                "jdbc:postgresql://localhost:%d/%s".formatted(network.port(), database.name()),
                                database.username(),
                                database.password())
                        .getConnection();
            }

            @Override
            public Connection getConnection(String username, String password) throws SQLException {
                return getConnection();
            }
        };
    }

    /** A component with a loop that uses the database in every second pass. */
    private static final class Alternating implements NodeComponent {

        final AtomicInteger passes = new AtomicInteger();
        private final JdbcClient jdbc;

        Alternating(DataSource source) {
            this.jdbc = JdbcClient.create(source);
        }

        @Override
        public List<NodeLoop> loops() {
            return List.of(NodeLoop.of("alternating", () -> Duration.ofMillis(50), this::pass));
        }

        private void pass() {
            if (passes.getAndIncrement() % 2 == 0) {
                jdbc.sql("SELECT 1").query(Integer.class).single();
            }
        }

        void awaitPasses(int number) {
            int before = passes.get();
            await().until(() -> passes.get() >= before + number);
        }
    }

    private List<String> failed() {
        return subjects(FAILURE);
    }

    private List<String> recovered() {
        return subjects(RECOVERY);
    }

    private List<String> subjects(Pattern pattern) {
        return lines.stream()
                .map(pattern::matcher)
                .filter(Matcher::matches)
                .map(matcher -> matcher.group(1).replace("Could not claim", "Claiming"))
                .toList();
    }

    @Test
    void recovery_is_logged_once_for_each_failure_and_not_before_the_database_is_back() {
        var work = new TestJobs(database.dataSource()).on("job", context -> {});
        work.poll = Duration.ofMillis(100);
        work.heartbeat = Duration.ofMillis(200);
        Member one = cluster.create("one", throughNetwork(), work, UnaryOperator.identity());
        cluster.members.add(one);
        var daemonRuns = new CountDownLatch(1);
        var daemons = new DaemonHandlers();
        daemons.add(TestDaemons.daemon("feed").running(context -> {
            daemonRuns.countDown();
            while (!context.awaitStop(Duration.ofMinutes(1))) {
                daemonRuns.countDown();
            }
        }));
        one.node().components().register(new DaemonEngine(one.node(), daemons, one.leadership()));
        var loop = new Alternating(one.control());
        one.node().components().register(loop);
        one.node().start();
        await().until(() -> daemonRuns.getCount() == 0);
        loop.awaitPasses(4);
        assertThat(failed()).isEmpty();

        network.close();
        // From then on the worker does not try to claim.
        await().until(() -> !one.node().contact().isRecent());
        loop.awaitPasses(20);
        List<String> failed = failed();
        assertThat(failed)
                .contains(
                        "Loop alternating",
                        "Loop daemons",
                        "Loop heartbeat",
                        "Loop observe",
                        "Loop renew-leases",
                        "Claiming jobs",
                        "Session")
                .doesNotHaveDuplicates();
        assertThat(recovered()).isEmpty();

        network = network();
        await().untilAsserted(() -> assertThat(recovered()).containsAll(failed()));
        loop.awaitPasses(20);
        assertThat(recovered()).containsExactlyInAnyOrderElementsOf(failed());
        assertThat(failed()).doesNotHaveDuplicates();
        assertThat(lines).noneMatch(line -> line.contains("after 1 failures"));
    }
}

// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import com.sun.net.httpserver.HttpServer;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.testkit.engine.EngineTestKit;

/** Tests the processes, networks and databases of {@link ClusterProcessTest}, and that nothing of them remains. */
class ClusterProcessTestTests {

    private static final Queue<Long> PIDS = new ConcurrentLinkedQueue<>();
    private static final Queue<String> DATABASES = new ConcurrentLinkedQueue<>();

    /** Writes a row every 20 ms, and is ready as soon as it has written the first one. */
    static final class Application {

        private final Map<String, String> properties;
        private volatile boolean ready;

        private Application(Map<String, String> properties) {
            this.properties = properties;
        }

        public static void main(String[] arguments) throws IOException, InterruptedException {
            new Application(Stream.of(arguments)
                            .map(argument -> argument.substring("--".length()).split("=", 2))
                            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1])))
                    .run();
        }

        private void run() throws IOException, InterruptedException {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("orderly end")));
            var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            server.createContext("/actuator/health/readiness", exchange -> {
                exchange.sendResponseHeaders(ready ? 200 : 503, -1);
                exchange.close();
            });
            server.start();
            System.out.println("started on port " + server.getAddress().getPort());
            System.out.println("greeting <" + properties.get("greeting") + ">");
            while (true) {
                try (Connection connection = DriverManager.getConnection(
                        System.getenv("SPRING_DATASOURCE_URL"),
                        System.getenv("SPRING_DATASOURCE_USERNAME"),
                        System.getenv("SPRING_DATASOURCE_PASSWORD"))) {
                    write(connection);
                } catch (SQLException e) {
                    System.out.println(e);
                }
            }
        }

        private void write(Connection connection) throws SQLException, InterruptedException {
            try (Statement statement = connection.createStatement()) {
                // Two processes may create it at the same time; one of them fails and tries again.
                statement.execute("""
                        CREATE TABLE IF NOT EXISTS beats
                            (id bigserial PRIMARY KEY, node text, at timestamptz DEFAULT clock_timestamp())
                        """);
                while (true) {
                    statement.execute("INSERT INTO beats (node) VALUES ('%s')"
                            .formatted(properties.get("forge.cluster.node.name")));
                    ready = true;
                    TimeUnit.MILLISECONDS.sleep(20);
                }
            }
        }
    }

    /** Ends before it is ready. */
    static final class BrokenApplication {

        private BrokenApplication() {}

        public static void main(String[] arguments) {
            System.out.println("no orders today");
        }
    }

    @BeforeEach
    void forget() {
        PIDS.clear();
        DATABASES.clear();
    }

    private static void remember(ClusterProcesses cluster) {
        for (int i = 0; i < cluster.size(); i++) {
            PIDS.add(cluster.process(i).pid());
        }
        DATABASES.add(cluster.database().name());
    }

    private static long beats(TestDatabase database, int process) {
        return database.jdbc()
                .sql("SELECT count(*) FROM beats WHERE node = ?")
                .param("process-" + process)
                .query(Long.class)
                .single();
    }

    private static void awaitBeats(ClusterProcesses cluster, int process, int count) {
        long before = beats(cluster.database(), process);
        cluster.eventually(() -> assertThat(beats(cluster.database(), process)).isGreaterThanOrEqualTo(before + count));
    }

    /** Asserts that one process writes nothing while the other writes; a row that is on its way may still arrive before. */
    private static void assertSilent(ClusterProcesses cluster, int process, int other) {
        cluster.eventually(() -> {
            long before = beats(cluster.database(), process);
            awaitBeats(cluster, other, 20);
            assertThat(beats(cluster.database(), process)).isEqualTo(before);
        });
    }

    @Nested
    @ClusterProcessTest(application = Application.class, properties = "greeting=hello = world")
    class Faults {

        @Test
        void processes_are_ready_when_the_test_begins(ClusterProcesses cluster, TestDatabase database) {
            assertThat(beats(database, 0)).isPositive();
            assertThat(beats(database, 1)).isPositive();
            assertThat(cluster.size()).isEqualTo(2);
            assertThat(cluster.database()).isSameAs(database);
            for (int i = 0; i < cluster.size(); i++) {
                assertThat(cluster.process(i).isAlive()).isTrue();
                assertThat(cluster.process(i).log()).contains("greeting <hello = world>");
                assertThat(cluster.network(i).connections()).isPositive();
            }
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> cluster.kill(2))
                    .withMessageContaining("Process 2 does not exist");
        }

        @Test
        void killed_process_ends_and_the_other_continues(ClusterProcesses cluster) {
            cluster.kill(0);
            assertThat(cluster.process(0).isAlive()).isFalse();
            assertThat(cluster.process(0).log()).doesNotContain("orderly end");
            assertSilent(cluster, 0, 1);
        }

        @Test
        void stopped_process_ends_in_an_orderly_way(ClusterProcesses cluster) {
            assertThat(cluster.stop(0)).isEqualTo(143);
            assertThat(cluster.process(0).log()).contains("orderly end");
            awaitBeats(cluster, 1, 3);
        }

        @Test
        void frozen_process_continues_when_resumed(ClusterProcesses cluster) {
            cluster.freeze(1);
            assertSilent(cluster, 1, 0);
            assertThat(cluster.process(1).isAlive()).isTrue();
            cluster.resume(1);
            awaitBeats(cluster, 1, 3);
        }

        @Test
        void cut_process_continues_when_reconnected(ClusterProcesses cluster) {
            cluster.cutFromDatabase(0);
            assertSilent(cluster, 0, 1);
            cluster.reconnect(0);
            awaitBeats(cluster, 0, 3);
        }

        @Test
        void slow_network_delays_one_process(ClusterProcesses cluster, TestDatabase database) {
            cluster.slowDown(0, Duration.ofMillis(200));
            awaitBeats(cluster, 0, 3);
            double lastGap = database.jdbc().sql("""
                            SELECT extract(epoch FROM at - lag(at) OVER (ORDER BY id)) FROM beats
                            WHERE node = 'process-0' ORDER BY id DESC LIMIT 1
                            """).query(Double.class).single();
            assertThat(lastGap).isGreaterThan(0.3);
            awaitBeats(cluster, 1, 3);
        }

        @Test
        void further_process_joins_with_its_own_properties(ClusterProcesses cluster) {
            int added = cluster.start("greeting=good evening");
            assertThat(added).isEqualTo(2);
            assertThat(cluster.process(added).log()).contains("greeting <good evening>");
            cluster.cutFromDatabase(added);
            assertSilent(cluster, added, 0);
        }

        @Test
        void assertion_is_repeated_until_it_passes_or_time_is_up(ClusterProcesses cluster) {
            var calls = new AtomicInteger();
            cluster.eventually(() -> {
                if (calls.incrementAndGet() == 1) {
                    throw new IllegalStateException("no connection");
                }
                assertThat(calls).hasValue(3);
            });
            assertThatThrownBy(() -> cluster.eventually(
                            Duration.ofMillis(100),
                            () -> assertThat(calls).as("calls").hasValue(0)))
                    .isInstanceOf(AssertionError.class)
                    .hasMessageContainingAll("Still failing after PT0.1S", "[calls]")
                    .hasCauseInstanceOf(AssertionError.class);
        }
    }

    @Nested
    @ClusterProcessTest(application = Application.class, processes = 0, proxied = false)
    class WithoutProxies {

        @Test
        void process_without_a_proxy_connects_directly_and_cannot_be_cut_off(ClusterProcesses cluster) {
            assertThat(cluster.size()).isZero();
            int first = cluster.start();
            assertThat(beats(cluster.database(), first)).isPositive();
            assertThatIllegalStateException()
                    .isThrownBy(() -> cluster.cutFromDatabase(first))
                    .withMessageContaining("proxied = false");
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> cluster.start("greeting"))
                    .withMessageContaining("'greeting'");
            assertThat(cluster.size()).isOne();
        }
    }

    private static List<Throwable> failuresOf(Class<?> testClass, boolean parallel) {
        return EngineTestKit.engine("junit-jupiter")
                .configurationParameter("junit.jupiter.execution.parallel.enabled", Boolean.toString(parallel))
                .configurationParameter("junit.jupiter.execution.parallel.mode.default", "concurrent")
                .configurationParameter("junit.jupiter.execution.parallel.config.strategy", "fixed")
                .configurationParameter("junit.jupiter.execution.parallel.config.fixed.parallelism", "2")
                .selectors(selectClass(testClass))
                .execute()
                .allEvents()
                .failed()
                .map(event -> event.getRequiredPayload(TestExecutionResult.class)
                        .getThrowable()
                        .orElseThrow())
                .toList();
    }

    private static void assertNothingRemains() {
        assertThat(PIDS)
                .isNotEmpty()
                .doesNotHaveDuplicates()
                .allSatisfy(pid -> assertThat(ProcessHandle.of(pid)).isEmpty());
        try (TestDatabase other = PostgresServer.shared().createEmptyDatabase("other")) {
            assertThat(other.jdbc()
                            .sql("SELECT datname FROM pg_database")
                            .query(String.class)
                            .list())
                    .contains(other.name())
                    .doesNotContainAnyElementsOf(DATABASES);
        }
        await().untilAsserted(() -> assertThat(Thread.getAllStackTraces().keySet())
                .extracting(Thread::getName)
                .noneMatch(name -> name.startsWith("tcp-proxy-")));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void each_test_method_has_its_own_processes_and_database(boolean parallel) {
        TwoTests.meeting = new CountDownLatch(parallel ? 2 : 1);
        assertThat(failuresOf(TwoTests.class, parallel)).isEmpty();
        assertThat(PIDS).hasSize(4);
        assertThat(DATABASES).hasSize(2).doesNotHaveDuplicates();
        assertNothingRemains();
    }

    @Test
    void failure_includes_the_output_of_each_process_and_ends_them() {
        assertThat(failuresOf(Failing.class, false)).singleElement().satisfies(failure -> {
            assertThat(failure).hasMessage("as expected");
            assertThat(failure.getSuppressed())
                    .singleElement()
                    .asString()
                    .containsSubsequence("process 0 (pid ", ", running)", "started on port")
                    .containsSubsequence("process 1 (pid ", ", ended)", "started on port");
        });
        assertNothingRemains();
    }

    @Test
    void process_that_does_not_start_fails_the_test_with_its_output() {
        assertThat(failuresOf(Broken.class, false))
                .singleElement()
                .satisfies(
                        failure -> assertThat(failure).hasMessageContainingAll("before readiness", "no orders today"));
        assertThat(ProcessHandle.current()
                        .descendants()
                        .map(handle -> handle.info().commandLine().orElse("")))
                .noneMatch(line -> line.contains("BrokenApplication"));
    }

    @Test
    void parameter_of_a_class_level_method_is_rejected() {
        assertThat(failuresOf(ClassLevel.class, false))
                .singleElement()
                .satisfies(failure -> assertThat(failure)
                        .hasMessageContaining("@ClusterProcessTest: every test method has its own ClusterProcesses"));
    }

    @ClusterProcessTest(application = Application.class)
    static class TwoTests {

        private static CountDownLatch meeting = new CountDownLatch(0);

        @BeforeEach
        void collect(ClusterProcesses cluster) throws InterruptedException {
            remember(cluster);
            meeting.countDown();
            assertThat(meeting.await(1, TimeUnit.MINUTES)).isTrue();
        }

        @Test
        void first(TestDatabase database) {
            assertThat(database.name()).isIn(DATABASES);
        }

        @Test
        void second(TestDatabase database) {
            assertThat(database.name()).isIn(DATABASES);
        }
    }

    @ClusterProcessTest(application = Application.class)
    static class Failing {

        @Test
        void fails(ClusterProcesses cluster) {
            remember(cluster);
            cluster.cutFromDatabase(0);
            cluster.freeze(0);
            cluster.kill(1);
            throw new AssertionError("as expected");
        }
    }

    @ClusterProcessTest(application = BrokenApplication.class)
    static class Broken {

        @Test
        void never_runs() {}
    }

    @ClusterProcessTest(application = Application.class)
    static class ClassLevel {

        @BeforeAll
        static void prepare(ClusterProcesses cluster) {
            cluster.kill(0);
        }

        @Test
        void never_runs() {}
    }
}
